//! Another Redis takes over, under Sentinel and in a cluster.

use std::time::Duration;

use rand::seq::IndexedRandom;
use tokio::task::block_in_place;

use crate::{
    faults::frozen::freeze,
    soak::{faults::Scene, stage::Store},
    support::{cluster::Cluster, sentinel::Sentinel},
};

fn sentinel<'a>(scene: &'a mut Scene<'_>) -> &'a mut Sentinel {
    match &mut scene.stage.store {
        Store::Sentinel(sentinel) => sentinel,
        _ => panic!("the store has no Sentinels"),
    }
}

fn cluster<'a>(scene: &'a mut Scene<'_>) -> &'a mut Cluster {
    match &mut scene.stage.store {
        Store::Cluster(cluster) => cluster,
        _ => panic!("the store is no cluster"),
    }
}

/// Its replica is promoted; without a replica nothing is acknowledged until it is back.
pub async fn sentinel_master_killed(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.kill_master();
        let new = sentinel.wait_for_failover(old);
        sentinel.resume_killed();
        old != new
    })
}

/// It goes on as a master once it may, until the Sentinels tell it otherwise.
pub async fn sentinel_master_frozen(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.master().expect("a settled master");
        let frozen = freeze(old);
        let new = sentinel.wait_for_failover(old);
        frozen.thaw();
        sentinel.wait_until_settled();
        old != new
    })
}

/// `SENTINEL FAILOVER`: the old master lives.
pub async fn sentinel_master_replaced(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.master();
        sentinel.force_failover();
        sentinel.master() != old
    })
}

/// A node that is a master, with a slot that it has.
fn any_master(scene: &mut Scene<'_>) -> (usize, u16) {
    let cluster = match &scene.stage.store {
        Store::Cluster(cluster) => cluster,
        _ => panic!("the store is no cluster"),
    };
    let masters = cluster.master_nodes();
    let node = *masters.choose(scene.random).expect("a master");
    let slots = cluster.slots_in_use(node);
    (node, *slots.first().expect("it has buckets"))
}

/// Its replica takes over.
pub async fn cluster_master_killed(mut scene: Scene<'_>) -> bool {
    block_in_place(|| {
        let (old, slot) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        cluster.kill(old);
        let new = cluster.wait_for_failover(slot, old);
        cluster.resume(&[old]);
        old != new
    })
}

/// The same, and it goes on as if nothing had been.
pub async fn cluster_master_frozen(mut scene: Scene<'_>) -> bool {
    block_in_place(|| {
        let (old, slot) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        let frozen = freeze(cluster.port(old));
        cluster.note_frozen(Some(old));
        let new = cluster.wait_for_failover(slot, old);
        frozen.thaw();
        cluster.note_frozen(None);
        cluster.wait_until_whole();
        old != new
    })
}

/// Two slots with buckets go to another master and back, key by key.
pub async fn slots_moved(mut scene: Scene<'_>) -> bool {
    block_in_place(|| {
        let (from, _) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        let slots: Vec<u16> = cluster.slots_in_use(from).into_iter().take(2).collect();
        let to = cluster.master_nodes().into_iter().find(|node| *node != from).expect("another");
        cluster.move_slots(&slots, to, Duration::from_millis(500));
        let moved = slots.iter().all(|slot| cluster.master_of(*slot) == Some(to));
        cluster.move_slots(&slots, from, Duration::from_millis(500));
        moved
    })
}

/// One master keeps the slot of the access tokens and no other of the store's, while a server starts; then all go
/// back.
pub async fn tokens_slot_moved(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let (node, slots, tokens, home) = block_in_place(|| {
        let (node, _) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        let other = cluster.master_nodes().into_iter().find(|one| *one != node).expect("another");
        let tokens = cluster.slot_of("{dq:tokens}:all");
        let home = cluster.master_of(tokens).expect("settled slots");
        let mut slots = cluster.slots_with_keys(node);
        slots.retain(|slot| *slot != tokens);
        cluster.move_slots(&slots, other, Duration::ZERO);
        if home != node {
            cluster.move_slots(&[tokens], node, Duration::from_millis(300));
        }
        (node, slots, tokens, home)
    });
    // A server that starts reads the tokens before it is ready.
    scene.stage.kill(server).await;
    block_in_place(|| {
        let cluster = cluster(&mut scene);
        let alone = cluster.slots_with_keys(node).iter().all(|slot| *slot == tokens);
        if home != node {
            cluster.move_slots(&[tokens], home, Duration::ZERO);
        }
        cluster.move_slots(&slots, node, Duration::ZERO);
        alone
    })
}
