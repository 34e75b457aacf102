//! Faults of the network between servers and Redis: lost bytes, resets, truncated answers.

use std::thread::sleep;

use crate::faults::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_the_network_drops_everything() {
    let pair = Pair::start();
    let proxy = Proxy::start(pair.master.port()).await;
    let mut scenario = Scenario::start(&pair.settings(proxy.port)).await;
    let mut open = vec![pair.connections()];
    // The first lost answers may all have been answers to timers. Then the fault is repeated.
    while open.len() < 3 || scenario.unavailable("unknown") == 0 {
        assert!(open.len() < 5, "no call of a client was in progress during the fault");
        let ([there, back], cut) = (proxy.swallowed(), proxy.cut());
        scenario
            .failing_round("a black hole, then cut", || {
                proxy.set(Mode::Mute);
                sleep(Duration::from_millis(500)); // calls are carried out, and their answers are lost
                proxy.set(Mode::Swallow);
                sleep(Duration::from_secs(4)); // servers wait for an answer for longer than this
                proxy.set(Mode::Cut);
                sleep(Duration::from_secs(1)); // new connections lose bytes too
                proxy.set(Mode::Pass);
            })
            .await;
        let now = proxy.swallowed();
        assert!(
            now[0] > there && now[1] > back,
            "the proxy has lost no bytes: counts [{there}, {back}] before, {now:?} after"
        );
        // Each server has three connections: for calls, for writes, and for hints.
        assert!(
            proxy.cut() >= cut + 6,
            "fewer than 6 connections were reset: {cut} before, {} after",
            proxy.cut()
        );
        open.push(pair.connections());
    }
    assert!(open.iter().all(|now| *now <= open[0] + 4), "connections to the master: {open:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_connections_die_without_a_reset() {
    let pair = Pair::start();
    let proxy = Proxy::start(pair.master.port()).await;
    let mut scenario = Scenario::start(&pair.settings(proxy.port)).await;
    let mut open = vec![pair.connections()];
    for _ in 0..2 {
        let ([there, _], watch) = (proxy.swallowed(), Stopwatch::start());
        scenario
            .round("connections dead", || {
                proxy.set(Mode::Swallow);
                sleep(Duration::from_secs(1)); // until every connection in use has lost bytes
                // New connections work. The old ones stay dead until the servers replace them.
                proxy.set(Mode::Pass);
            })
            .await;
        assert!(proxy.swallowed()[0] > there, "the proxy has lost no bytes");
        // A call waits five seconds for an answer. Calls wait at the same time.
        let longest = scenario.longest();
        let is_in_time = watch.without_stalls(longest) < Duration::from_millis(9_800);
        assert!(
            longest >= Duration::from_secs(4) && is_in_time,
            "the longest call took {longest:?}"
        );
        open.push(pair.connections());
    }
    assert!(open.iter().all(|now| *now <= open[0] + 4), "connections to the master: {open:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_answers_of_redis_end_in_the_middle() {
    let pair = Pair::start();
    let proxy = Proxy::start(pair.master.port()).await;
    let mut scenario = Scenario::start(&pair.settings(proxy.port)).await;
    let mut open = vec![pair.connections()];
    for _ in 0..2 {
        let truncated = proxy.truncated();
        scenario
            .failing_round("answers end in the middle", || {
                for _ in 0..10 {
                    proxy.set(Mode::Truncate);
                    sleep(Duration::from_millis(200)); // until every connection in use has got an answer
                    proxy.set(Mode::Pass);
                    sleep(Duration::from_millis(300)); // until servers use new connections
                }
            })
            .await;
        assert!(
            proxy.truncated() >= truncated + 20,
            "too few answers were truncated: {truncated} before, {} after",
            proxy.truncated()
        );
        open.push(pair.connections());
    }
    assert!(
        scenario.unavailable("unknown") > 0,
        "no call of a client was in progress during the fault"
    );
    assert!(open.iter().all(|now| *now <= open[0] + 4), "connections to the master: {open:?}");
    scenario.promises_hold(&[pair.master.port()]).await;
}
