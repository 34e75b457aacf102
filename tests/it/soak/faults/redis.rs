//! Faults of one Redis.

use tokio::time::sleep;

use crate::soak::prelude::*;

/// Kills Redis with `kill -9` and restarts it.
pub async fn killed(scene: Scene<'_>) -> bool {
    let redis = &mut scene.stage.single().redis;
    block_in_place(|| redis.kill());
    sleep(Duration::from_millis(300)).await; // calls must fail while Redis is down
    block_in_place(|| redis.resume());
    true
}

/// Freezes Redis for a time that may be shorter or longer than a server waits for an answer.
pub async fn frozen(mut scene: Scene<'_>) -> bool {
    let frozen = block_in_place(|| freeze(scene.stage.single().redis.port()));
    sleep(Duration::from_millis(1000 + scene.random_below(5500))).await;
    frozen.thaw();
    true
}

/// Pauses all clients of Redis for a while.
pub async fn paused(scene: Scene<'_>) -> bool {
    let began = scene.history.now();
    scene.stage.command_masters(&["CLIENT", "PAUSE", "1200", "ALL"]);
    // Calls that the pause has delayed end after the pause.
    holds_soon(|| scene.history.longest_since(began) > Duration::from_millis(500)).await
}

/// Flushes the scripts several times while calls are in progress.
pub async fn scripts_flushed(scene: Scene<'_>) -> bool {
    let masters = block_in_place(|| scene.stage.masters());
    for _ in 0..5 {
        scene.stage.command_masters(&["SCRIPT", "FLUSH", "SYNC"]);
        sleep(Duration::from_millis(100)).await;
    }
    let used = |port: u16| {
        let info = ask(port, &["INFO", "memory"]).expect("an answer");
        !info.text().contains("number_of_cached_scripts:0\r")
    };
    // Cached scripts prove that calls have loaded them again.
    holds_soon(|| block_in_place(|| masters.iter().any(|&port| used(port)))).await
}

/// Fills the memory: Redis refuses puts, and carries out transitions that free memory.
pub async fn memory_full(scene: Scene<'_>) -> bool {
    let before = scene.history.failures_with("507 store_full");
    let limit = |bytes: &str| scene.stage.command_masters(&["CONFIG", "SET", "maxmemory", bytes]);
    limit("1mb");
    let refused = holds_soon(|| scene.history.failures_with("507 store_full") > before).await;
    sleep(Duration::from_millis(500)).await;
    limit("0");
    refused
}

/// Runs FLUSHALL. Each server notices it and is not ready until the loss is accepted.
pub async fn emptied(scene: Scene<'_>) -> bool {
    scene.stage.command_masters(&["FLUSHALL", "SYNC"]);
    let servers = &scene.stage.servers;
    let all_answer = async |wanted: u16| {
        for server in servers {
            let mut status = 0;
            for _ in 0..500 {
                status = server.process.get("/readyz").await.0;
                if status == wanted {
                    break;
                }
                sleep(Duration::from_millis(20)).await; // the timers must run to notice the loss
            }
            if status != wanted {
                return false;
            }
        }
        true
    };
    let noticed = all_answer(503).await;
    let accepted = servers[0].process.post("/store/accept-loss", json!({})).await;
    noticed && accepted.is_some_and(|(status, _)| status == 200) && all_answer(200).await
}
