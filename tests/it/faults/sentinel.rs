//! Faults with Sentinel: the master is killed, or replaced while it is alive.

use crate::faults::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_the_killed_master_is_replaced() {
    let mut sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&confirmed(&sentinel.url())).await;
    let (mut old, mut new) = (0, 0);
    scenario
        .failing_round("master killed, replica promoted", || {
            old = sentinel.kill_master();
            new = sentinel.wait_for_failover(old);
            // A master without a replica acknowledges no writes, so the fault ends only when the
            // killed process is back.
            sentinel.resume_killed();
        })
        .await;
    assert_ne!(old, new);
    scenario.promises_hold(&[sentinel.master().expect("all Sentinels name the same master")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_sentinel_replaces_a_living_master() {
    let sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&confirmed(&sentinel.url())).await;
    let mut open = Vec::new();
    // There are only two rounds, since each takes ten seconds until the old master has become a
    // replica.
    for _ in 0..2 {
        let old = sentinel.master();
        scenario.round("SENTINEL FAILOVER", || sentinel.force_failover()).await;
        assert_ne!(sentinel.master(), old);
        open.push(sentinel.connections());
    }
    assert!(open[1] <= open[0] + 4, "connections to the master: {open:?}");
    scenario.promises_hold(&[sentinel.master().expect("all Sentinels name the same master")]).await;
}
