//! A master and a replica under Sentinel: the master is killed, or replaced while it is alive.

use crate::{faults::scenario::Scenario, support::sentinel::Sentinel};

fn settings(sentinel: &Sentinel) -> String {
    format!("url = {:?}\nack = \"replica\"", sentinel.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_the_killed_master_is_replaced() {
    let mut sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&settings(&sentinel)).await;
    let (mut old, mut new) = (0, 0);
    let failures = scenario
        .round("master killed, replica promoted", || {
            old = sentinel.kill_master();
            new = sentinel.wait_for_failover(old);
            // A master without a replica acknowledges nothing, so the fault ends here.
            sentinel.resume_killed();
        })
        .await;
    assert_ne!(old, new);
    assert!(failures > 0, "no call met the fault");
    scenario.promises_hold(&[sentinel.master().expect("a settled master")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_sentinel_replaces_a_living_master() {
    let sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&settings(&sentinel)).await;
    let mut open = Vec::new();
    // Two rounds only: an old master takes ten seconds to follow.
    for _ in 0..2 {
        let old = sentinel.master();
        scenario.round("SENTINEL FAILOVER", || sentinel.force_failover()).await;
        assert_ne!(sentinel.master(), old);
        open.push(sentinel.connections());
    }
    assert!(open[1] <= open[0] + 4, "connections to the master: {open:?}");
    scenario.promises_hold(&[sentinel.master().expect("a settled master")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_each_server_is_killed_in_turn() {
    let sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&settings(&sentinel)).await;
    let failures = scenario.round_of_killed_servers().await;
    assert!(failures > 0, "no call met the fault");
    scenario.promises_hold(&[sentinel.master().expect("a settled master")]).await;
}
