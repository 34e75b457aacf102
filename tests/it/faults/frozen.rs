//! Processes that freeze and later continue with full buffers: a master whose replica is promoted
//! meanwhile, and a replica. The soak also freezes a single Redis and a server.

use std::thread::sleep;

use crate::faults::prelude::*;
use crate::support::signal::freeze;

/// Returns the role that the Redis on this port reports.
fn role(port: u16) -> String {
    ask(port, &["ROLE"]).expect("an answer").list()[0].text().to_owned()
}

/// Duration that calls exceed only because of a fault, even on a busy machine.
const SLOWER_THAN_WITHOUT_FAULT: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_frozen_cluster_master_is_replaced() {
    let mut cluster = Cluster::start();
    let mut scenario = Scenario::start(&confirmed(&cluster.url())).await;
    let slot = cluster.slots_in_use(0)[0];
    for _ in 0..2 {
        // The second round freezes the master that the first round has promoted.
        let (old, mut promoted) =
            (cluster.master_of(slot).expect("all nodes name the same master"), 0);
        scenario
            .round("master frozen, replica promoted", || {
                let frozen = freeze(cluster.port(old));
                cluster.set_frozen(Some(old));
                promoted = cluster.wait_for_failover(slot, old);
                frozen.thaw();
                cluster.set_frozen(None);
                // A master without a replica acknowledges no writes, so the fault ends only after
                // the thaw.
                cluster.wait_until_whole();
            })
            .await;
        assert_ne!(promoted, old);
        // The old master knows that it was replaced. On a busy machine, the cluster may have
        // promoted it again.
        let is_master = cluster.master_of(slot) == Some(old);
        assert_eq!(role(cluster.port(old)) == "master", is_master);
        // A call may succeed after a delay: it has tried the old connection first and then followed
        // the slot.
        assert!(
            scenario.longest() > SLOWER_THAN_WITHOUT_FAULT,
            "no call was affected by the fault"
        );
    }
    scenario.promises_hold(&cluster.masters()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_frozen_sentinel_master_is_replaced() {
    let sentinel = Sentinel::start();
    let mut scenario = Scenario::start(&confirmed(&sentinel.url())).await;
    let (old, open) =
        (sentinel.master().expect("all Sentinels name the same master"), sentinel.connections());
    let (mut promoted, mut believed) = (0, String::new());
    scenario
        .failing_round("master frozen, replica promoted", || {
            let frozen = freeze(old);
            promoted = sentinel.wait_for_failover(old);
            frozen.thaw();
            believed = role(old);
            // This takes about ten seconds. Meanwhile the new master has no replica, so it
            // acknowledges no writes.
            sentinel.wait_until_settled();
        })
        .await;
    assert_eq!(believed, "master", "the thawed process does not act as a master");
    assert_ne!(promoted, old);
    assert!(scenario.longest() > SLOWER_THAN_WITHOUT_FAULT, "no call was affected by the fault");
    let now = sentinel.connections();
    assert!(now <= open + 4, "connections to the master: {open}, then {now}");
    scenario.promises_hold(&[sentinel.master().expect("all Sentinels name the same master")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_the_only_replica_is_frozen() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    let mut refused = vec![0];
    // The batch that gets no confirmation may have only calls of timers. Then the fault is
    // repeated.
    while refused.len() < 3 || scenario.unavailable("unknown") == 0 {
        assert!(refused.len() < 6, "all batches without a confirmation had only calls of timers");
        scenario
            .round("replica frozen", || {
                let frozen = freeze(pair.replica.port());
                // Waits for longer than the timeouts of two confirmations, since a call may wait
                // behind another one.
                sleep(Duration::from_secs(5));
                frozen.thaw();
            })
            .await;
        refused.push(scenario.unavailable("no"));
    }
    // After this batch, servers refuse all calls without sending them.
    assert!(
        refused.is_sorted_by(|one, next| one < next),
        "a round had no refused calls: {refused:?}"
    );
    scenario.promises_hold(&[pair.master.port()]).await;
}
