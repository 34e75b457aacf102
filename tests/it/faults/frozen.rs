//! Processes that freeze and then go on with full buffers: a master whose replica is promoted
//! meanwhile, a replica, a Redis without either, a server.

use std::{thread::sleep, time::Duration};

use crate::{
    faults::{load::TTR, redis::Pair, scenario::Scenario},
    support::{cluster::Cluster, resp::ask, sentinel::Sentinel, signal::Frozen},
};

pub fn freeze(port: u16) -> Frozen {
    let info = ask(port, &["INFO", "server"]).expect("an answer");
    let pid = info.text().lines().find_map(|line| line.strip_prefix("process_id:"));
    Frozen::freeze(pid.and_then(|pid| pid.parse().ok()).expect("a process id"))
}

/// Returns the role that the Redis on this port believes to have.
fn role(port: u16) -> String {
    ask(port, &["ROLE"]).expect("an answer").list()[0].text().to_owned()
}

/// Longer than any call that meets no fault, also on a busy machine.
const LONG: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_frozen_cluster_master_is_replaced() {
    let mut cluster = Cluster::start();
    let settings = format!("url = {:?}\nack = \"replica\"", cluster.url());
    let mut scenario = Scenario::start(&settings).await;
    let slot = cluster.slots_in_use(0)[0];
    for _ in 0..2 {
        // The second round freezes the master promoted in the first.
        let (old, mut promoted) = (cluster.master_of(slot).expect("settled slots"), 0);
        scenario
            .round("master frozen, replica promoted", || {
                let frozen = freeze(cluster.port(old));
                cluster.note_frozen(Some(old));
                promoted = cluster.wait_for_failover(slot, old);
                frozen.thaw();
                cluster.note_frozen(None);
                // A slot without a replica acknowledges nothing, so the fault ends here.
                cluster.wait_until_whole();
            })
            .await;
        assert_ne!(promoted, old);
        // The old master has learned of it, unless a busy machine made the cluster go back to it.
        let is_master = cluster.master_of(slot) == Some(old);
        assert_eq!(role(cluster.port(old)) == "master", is_master);
        // A call that tried the old connection first and then followed the slot has not even
        // failed.
        assert!(scenario.longest() > LONG, "no call met the fault");
    }
    scenario.promises_hold(&cluster.masters()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_frozen_sentinel_master_is_replaced() {
    let sentinel = Sentinel::start();
    let settings = format!("url = {:?}\nack = \"replica\"", sentinel.url());
    let mut scenario = Scenario::start(&settings).await;
    let (old, open) = (sentinel.master().expect("a settled master"), sentinel.connections());
    let (mut promoted, mut believed) = (0, String::new());
    let failures = scenario
        .round("master frozen, replica promoted", || {
            let frozen = freeze(old);
            promoted = sentinel.wait_for_failover(old);
            frozen.thaw();
            believed = role(old);
            // This takes about ten seconds; the new master has no replica, so nothing is
            // acknowledged.
            sentinel.wait_until_settled();
        })
        .await;
    assert_eq!(believed, "master", "it went on as what it had been");
    assert_ne!(promoted, old);
    assert!(failures > 0 && scenario.longest() > LONG, "no call met the fault");
    let now = sentinel.connections();
    assert!(now <= open + 4, "connections to the master: {open}, then {now}");
    scenario.promises_hold(&[sentinel.master().expect("a settled master")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_the_only_replica_is_frozen() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    let mut refused = vec![0];
    // The one batch that waits for its confirmation in vain may have only calls of timers.
    while refused.len() < 3 || scenario.unavailable("unknown") == 0 {
        assert!(refused.len() < 6, "no confirmation was missing");
        scenario
            .round("replica frozen", || {
                let frozen = freeze(pair.replica.port());
                // Longer than two confirmations may take: one call may follow another that waits.
                sleep(Duration::from_secs(5));
                frozen.thaw();
            })
            .await;
        refused.push(scenario.unavailable("no"));
    }
    // After that batch, servers refuse all calls before they make them.
    assert!(refused.is_sorted_by(|one, next| one < next), "nothing was refused: {refused:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_redis_is_frozen_beyond_the_timeout() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    let mut open = vec![pair.connections()];
    while open.len() < 3 || scenario.unavailable("unknown") == 0 {
        assert!(open.len() < 5, "no call was given up");
        scenario
            .round("redis frozen", || {
                let frozen = freeze(pair.master.port());
                sleep(Duration::from_secs(7)); // servers wait five seconds for an answer
                frozen.thaw();
            })
            .await;
        assert!(scenario.longest() > Duration::from_secs(4), "no call met the fault");
        open.push(pair.connections());
    }
    assert!(open.iter().all(|now| *now <= open[0] + 4), "connections to the master: {open:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_servers_are_frozen_beyond_the_ttr() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    scenario.round_of_frozen_servers(TTR * 2).await;
    scenario.promises_hold(&[pair.master.port()]).await;
}
