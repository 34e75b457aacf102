//! Interference with a shared Redis by an operator or another program.

use tokio::time::sleep;

use crate::soak::prelude::*;

/// Commands that transitions and polls need.
const NEEDED: [&str; 14] = [
    "zadd",
    "zrem",
    "zremrangebyrank",
    "zrange",
    "zcard",
    "zscore",
    "hset",
    "hget",
    "hmget",
    "hdel",
    "hexists",
    "exists",
    "evalsha",
    "time",
];

/// Forbids one of the [`NEEDED`] commands for some seconds, while calls are in progress.
pub async fn rights_taken_away(mut scene: Scene<'_>) -> bool {
    let began = scene.history.now();
    let command = *NEEDED.choose(scene.random).expect("NEEDED is not empty");
    let span = Duration::from_millis(2_000 + scene.random_below(3_000));
    let rule = |sign: &str| {
        scene.stage.command_masters(&["ACL", "SETUSER", "default", &format!("{sign}{command}")]);
    };
    rule("-");
    sleep(span).await; // jobs fall due and TTRs end meanwhile
    let failed = scene.history.failures_between(began, scene.history.now());
    rule("+");
    failed > 0
}

/// Replaces a topic's ready list by a string while a consumer waits for its jobs, and adds an
/// invalid deadline. The load, which does not use this topic, continues meanwhile.
pub async fn key_of_a_wrong_type(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let url = format!("{}/topics/odd/pop?wait=20s", scene.stage.servers[server].process.base);
    let masters = block_in_place(|| scene.stage.masters());
    let mut broken = Vec::new();
    for port in masters {
        let pools = block_in_place(|| ask(port, &["KEYS", "{*}:pool"])).expect("an answer").texts();
        let Some(tag) = pools.choose(scene.random).and_then(|key| key.strip_suffix("pool")) else {
            continue;
        };
        broken.push((port, format!("{tag}ready:odd"), format!("{tag}bucket")));
    }
    let expect_success = |port: u16, words: &[&str]| {
        let reply = block_in_place(|| ask(port, words)).expect("an answer");
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    };
    for (port, ready, bucket) in &broken {
        expect_success(*port, &["CONFIG", "RESETSTAT"]);
        expect_success(*port, &["SET", ready, "a text"]);
        let score = ["-inf", "1.5"].choose(scene.random).expect("two scores");
        expect_success(*port, &["ZADD", bucket, score, "delayed:odd"]);
    }
    let waiting = tokio::spawn(crate::support::http::get(url));
    let has_failed = |port: u16| {
        let errors = ask(port, &["INFO", "errorstats"]).expect("an answer");
        errors.text().contains("errorstat_WRONGTYPE")
    };
    let shown =
        holds_soon(|| block_in_place(|| broken.iter().all(|(port, ..)| has_failed(*port)))).await;
    sleep(Duration::from_secs(3)).await; // jobs of the load that fall due meanwhile must be delivered
    for (port, ready, bucket) in &broken {
        expect_success(*port, &["DEL", ready]);
        expect_success(*port, &["ZREM", bucket, "delayed:odd"]);
    }
    waiting.abort();
    shown && !broken.is_empty()
}
