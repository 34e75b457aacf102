//! Processes that stand still and then go on with all that lay in their buffers: a master while
//! its replica is promoted, a replica, a Redis without either, a server.

use std::{thread::sleep, time::Duration};

use crate::{
    faults::{load::TTR, redis::Pair, scenario::Scenario},
    support::{cluster::Cluster, resp::ask, sentinel::Sentinel, signal::Frozen},
};

/// Has the Redis on this port stand still.
pub fn freeze(port: u16) -> Frozen {
    let info = ask(port, &["INFO", "server"]).expect("an answer");
    let pid = info.text().lines().find_map(|line| line.strip_prefix("process_id:"));
    Frozen::freeze(pid.and_then(|pid| pid.parse().ok()).expect("a process id"))
}

/// What the Redis on this port takes itself for.
fn role(port: u16) -> String {
    ask(port, &["ROLE"]).expect("an answer").list()[0].text().to_owned()
}

/// Longer than any call takes that meets no fault, also on a busy machine.
const LONG: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_master_of_a_cluster_is_frozen_and_its_replica_promoted() {
    let mut cluster = Cluster::start();
    let settings = format!("url = {:?}\nack = \"replica\"", cluster.url());
    let mut scenario = Scenario::start(&settings).await;
    let slot = cluster.slots_in_use(0)[0];
    for _ in 0..2 {
        // The second time the other way round.
        let (old, mut promoted) = (cluster.master_of(slot).expect("settled slots"), 0);
        scenario
            .round("master frozen, replica promoted", || {
                let frozen = freeze(cluster.port(old));
                cluster.note_frozen(Some(old));
                promoted = cluster.wait_for_failover(slot, old);
                frozen.thaw();
                cluster.note_frozen(None);
                // Without a replica nothing of its slots is acknowledged, so the fault ends here.
                cluster.wait_until_whole();
            })
            .await;
        assert_ne!(promoted, old);
        // It has found out, unless a busy machine made the cluster go back to it.
        let is_master = cluster.master_of(slot) == Some(old);
        assert_eq!(role(cluster.port(old)) == "master", is_master);
        // A call that tried its connection first, and then followed the slot, has not even failed.
        assert!(scenario.longest() > LONG, "no call met the fault");
    }
    scenario.promises_hold(&cluster.masters()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_master_under_sentinel_is_frozen_and_its_replica_promoted() {
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
            // For ten seconds or so, and nothing is acknowledged as the new one has no replica.
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
                // Longer than one confirmation may take, and then another that is asked for before.
                sleep(Duration::from_secs(5));
                frozen.thaw();
            })
            .await;
        refused.push(scenario.unavailable("no"));
    }
    // After that batch all are refused before they are made.
    assert!(refused.is_sorted_by(|one, next| one < next), "nothing was refused: {refused:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_a_redis_is_frozen_for_longer_than_an_answer_may_take() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    let mut open = vec![pair.connections()];
    while open.len() < 3 || scenario.unavailable("unknown") == 0 {
        assert!(open.len() < 5, "no call was given up");
        scenario
            .round("redis frozen", || {
                let frozen = freeze(pair.master.port());
                sleep(Duration::from_secs(7)); // answers are awaited for five
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
async fn promises_hold_while_each_server_is_frozen_for_longer_than_the_ttr() {
    let pair = Pair::start();
    let mut scenario = Scenario::start(&pair.settings(pair.master.port())).await;
    scenario.round_of_frozen_servers(TTR * 2).await;
    scenario.promises_hold(&[pair.master.port()]).await;
}
