//! Faults of a Redis.

use std::time::Duration;

use tokio::{task::block_in_place, time::sleep};

use crate::{
    faults::frozen::freeze,
    soak::{faults::Scene, soon},
    support::resp::ask,
};

/// `kill -9`, and started again.
pub async fn killed(scene: Scene<'_>) -> bool {
    let redis = &mut scene.stage.single().redis;
    block_in_place(|| redis.kill());
    sleep(Duration::from_millis(300)).await; // calls meet it while it is away
    block_in_place(|| redis.resume());
    true
}

/// It stands still, for less and for more than an answer is awaited.
pub async fn frozen(mut scene: Scene<'_>) -> bool {
    let frozen = block_in_place(|| freeze(scene.stage.single().redis.port()));
    sleep(Duration::from_millis(1000 + scene.random_below(5500))).await;
    frozen.thaw();
    true
}

/// It answers nobody for a while.
pub async fn paused(scene: Scene<'_>) -> bool {
    let masters = block_in_place(|| scene.stage.masters());
    let began = scene.history.now();
    for port in masters {
        block_in_place(|| ask(port, &["CLIENT", "PAUSE", "1200", "ALL"]).expect("an answer"));
    }
    // Those that it kept waiting end with it.
    soon(|| scene.history.longest_since(began) > Duration::from_millis(500)).await
}

/// It knows no script any more; several times, in the middle of calls.
pub async fn scripts_flushed(scene: Scene<'_>) -> bool {
    let masters = block_in_place(|| scene.stage.masters());
    for _ in 0..5 {
        for &port in &masters {
            let flushed = block_in_place(|| ask(port, &["SCRIPT", "FLUSH", "SYNC"]));
            assert_eq!(flushed.expect("an answer").text(), "OK");
        }
        sleep(Duration::from_millis(100)).await;
    }
    let used = |port: u16| {
        let info = ask(port, &["INFO", "memory"]).expect("an answer");
        !info.text().contains("number_of_cached_scripts:0\r")
    };
    // Calls have loaded them again.
    soon(|| block_in_place(|| masters.iter().any(|&port| used(port)))).await
}

/// Its memory is used up: puts are refused, and what makes room goes on.
pub async fn memory_full(scene: Scene<'_>) -> bool {
    let (masters, before) =
        (block_in_place(|| scene.stage.masters()), scene.history.failures_with("507 store_full"));
    let limit = |bytes: &str| {
        for &port in &masters {
            let set = block_in_place(|| ask(port, &["CONFIG", "SET", "maxmemory", bytes]));
            assert_eq!(set.expect("an answer").text(), "OK");
        }
    };
    limit("1mb");
    let refused = soon(|| scene.history.failures_with("507 store_full") > before).await;
    sleep(Duration::from_millis(500)).await;
    limit("0");
    refused
}

/// FLUSHALL. Each server notices it and is not ready until it is started again.
pub async fn emptied(scene: Scene<'_>) -> bool {
    let port = scene.stage.single().redis.port();
    let emptied = block_in_place(|| ask(port, &["FLUSHALL", "SYNC"]));
    assert_eq!(emptied.expect("an answer").text(), "OK");
    let mut noticed = true;
    for server in 0..scene.stage.servers.len() {
        let mut ready = true;
        for _ in 0..500 {
            ready = scene.stage.servers[server].process.get("/readyz").await.0 == 200;
            if !ready {
                break;
            }
            sleep(Duration::from_millis(20)).await; // the timers' looks are awaited
        }
        noticed &= !ready;
        scene.stage.kill(server).await;
    }
    noticed
}
