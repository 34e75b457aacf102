//! Faults with a Redis Cluster: a killed master, and moved slots.

use crate::faults::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_killed_master_is_replaced() {
    let mut cluster = Cluster::start();
    let mut scenario = Scenario::start(&confirmed(&cluster.url())).await;
    let slot = cluster.slots_in_use(0)[0];
    let mut promoted = 0;
    scenario
        .failing_round("master killed, replica promoted", || {
            cluster.kill(0);
            promoted = cluster.wait_for_failover(slot, 0);
            // A master without a replica acknowledges no writes, so the fault ends only when the
            // killed node is back.
            cluster.resume(&[0]);
        })
        .await;
    assert_ne!(promoted, 0);
    scenario.promises_hold(&cluster.masters()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_slots_with_buckets_move() {
    let cluster = Cluster::steady();
    let mut scenario = Scenario::start(&confirmed(&cluster.url())).await;
    let slots = cluster.slots_in_use(0);
    assert!(slots.len() >= 3, "a master has fewer than 3 slots with buckets: {slots:?}");
    let mut open = Vec::new();
    for to in [1, 2, 0] {
        scenario
            .round(&format!("slots moved to {to}"), || {
                cluster.move_slots(&slots, to, Duration::from_secs(1));
            })
            .await;
        assert!(slots.iter().all(|&slot| cluster.master_of(slot) == Some(to)));
        open.push((0..3).map(|node| cluster.connections(node)).sum::<usize>());
    }
    assert!(open[2] <= open[0] + 6, "connections to the masters: {open:?}");
    scenario.promises_hold(&cluster.masters()).await;
}
