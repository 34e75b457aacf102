//! Failovers to another Redis, under Sentinel and in a cluster.

use crate::soak::prelude::*;

fn sentinel<'a>(scene: &'a mut Scene<'_>) -> &'a mut Sentinel {
    match &mut scene.stage.store {
        Store::Sentinel(sentinel) => sentinel,
        _ => panic!("the store has no Sentinels"),
    }
}

fn cluster<'a>(scene: &'a mut Scene<'_>) -> &'a mut Cluster {
    match &mut scene.stage.store {
        Store::Cluster(cluster) => cluster,
        _ => panic!("the store is not a cluster"),
    }
}

/// Kills the master: its replica is promoted. The new master has no replica, so the server
/// acknowledges nothing until the old master is back.
pub async fn sentinel_master_killed(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.kill_master();
        let new = sentinel.failover(old);
        sentinel.resume_killed();
        new.is_some()
    })
}

/// Freezes the master. After the thaw, it acts as a master until the Sentinels demote it.
pub async fn sentinel_master_frozen(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.master().expect("all Sentinels name the same master");
        let frozen = freeze(old);
        let new = sentinel.failover(old);
        frozen.thaw();
        sentinel.wait_until_settled();
        new.is_some()
    })
}

/// Runs `SENTINEL FAILOVER` while the old master is alive.
pub async fn sentinel_master_replaced(mut scene: Scene<'_>) -> bool {
    let sentinel = sentinel(&mut scene);
    block_in_place(|| {
        let old = sentinel.master();
        sentinel.force_failover();
        sentinel.master() != old
    })
}

/// Chooses a master, and one of its slots.
fn any_master(scene: &mut Scene<'_>) -> (usize, u16) {
    let masters = cluster(scene).master_nodes();
    let node = *masters.choose(scene.random).expect("a master");
    let slots = cluster(scene).slots_in_use(node);
    (node, *slots.first().expect("a master has slots with buckets"))
}

/// Kills a master: its replica is promoted.
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

/// Freezes a master: its replica is promoted. After the thaw, the old master does not know this at
/// first.
pub async fn cluster_master_frozen(mut scene: Scene<'_>) -> bool {
    block_in_place(|| {
        let (old, slot) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        let frozen = freeze(cluster.port(old));
        cluster.set_frozen(Some(old));
        let new = cluster.wait_for_failover(slot, old);
        frozen.thaw();
        cluster.set_frozen(None);
        cluster.wait_until_whole();
        old != new
    })
}

/// Moves two slots with buckets to another master and back, key by key.
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

/// Moves slots while a server starts, so that one master has the slot of the access tokens and no
/// other slot of the store. Then moves all slots back.
pub async fn tokens_slot_moved(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let (node, slots, tokens, home) = block_in_place(|| {
        let (node, _) = any_master(&mut scene);
        let cluster = cluster(&mut scene);
        let other = cluster.master_nodes().into_iter().find(|one| *one != node).expect("another");
        let tokens = cluster.slot_of("{dq:tokens}:all");
        let home = cluster.master_of(tokens).expect("all nodes name the same master");
        let mut slots = cluster.slots_with_keys(node);
        slots.retain(|slot| *slot != tokens);
        cluster.move_slots(&slots, other, Duration::ZERO);
        if home != node {
            cluster.move_slots(&[tokens], node, Duration::from_millis(300));
        }
        (node, slots, tokens, home)
    });
    // A server is ready only after it has read the tokens.
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
