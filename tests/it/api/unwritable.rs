//! Causes for which Redis refuses writes. `/readyz` names each cause, and answers with 200 once it
//! is removed.

use crate::api::prelude::*;
use crate::api::{acknowledged::server, unsafe_redis::run};
use crate::support::signal::freeze;

async fn until_ready(server: &Server, wanted: impl Fn(&Answer) -> bool) -> Answer {
    until(async || server.get("/readyz").await, wanted).await
}

/// Waits until `/readyz` answers with 503 and a reason that contains all of `words`.
async fn wait_until_refused(server: &Server, words: &[&str]) {
    let has = |answer: &Answer| {
        answer.status == 503 && words.iter().all(|word| answer.text.contains(word))
    };
    let answer = until_ready(server, has).await;
    answer.problem(503, "store_unavailable");
}

async fn wait_until_ready(server: &Server) {
    until_ready(server, |answer| answer.status == 200 && answer.json()["status"] == "ok").await;
    server.put(r#"{"topic":"t"}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_writes_is_not_ready() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    wait_until_ready(&server).await;

    run(&redis, "CONFIG SET min-replicas-to-write 1");
    wait_until_refused(&server, &["NOREPLICAS"]).await;
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(503, "store_unavailable");
    run(&redis, "CONFIG SET min-replicas-to-write 0");
    wait_until_ready(&server).await;

    // Makes a snapshot fail: its file cannot replace a directory.
    let dump = redis.dir.path().join("dump.rdb");
    fs::create_dir(&dump).expect("a directory");
    run(&redis, "CONFIG SET save \"3600 1\"");
    redis.command("BGSAVE").expect("an answer");
    wait_until_refused(&server, &["MISCONF"]).await;
    fs::remove_dir(&dump).expect("removed");
    redis.command("BGSAVE").expect("an answer");
    wait_until_ready(&server).await;

    run(&redis, "CONFIG SET maxmemory 1");
    let full = until_ready(&server, |answer| answer.text.contains("degraded")).await.ok(200);
    assert_eq!(full["reasons"], json!(["store_full"]));
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(507, "store_full");
    run(&redis, "CONFIG SET maxmemory 0");
    wait_until_ready(&server).await;

    redis.command("FLUSHALL").expect("an answer");
    until_ready(&server, |answer| answer.text.contains("store_replaced")).await;
    server.post("/store/accept-loss", "").await.ok(200);
    wait_until_ready(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_confirming_replica_is_not_ready() {
    let (master, mut replica) = master_and_replica();
    let server = server(&master, Ack::Replica).await;
    wait_until_ready(&server).await;
    replica.kill();
    wait_until_refused(&server, &["store.ack = \\\"replica\\\"", "replica"]).await;
    replica.resume();
    wait_until_connected(&replica);
    wait_until_ready(&server).await;

    // A frozen replica is connected and does not confirm writes, which the server notices at its
    // next write.
    let frozen = freeze(replica.port());
    server.post("/jobs", r#"{"topic":"t","id":"unconfirmed"}"#).await.unavailable("unknown");
    wait_until_refused(&server, &["no replica"]).await;
    frozen.thaw();
    wait_until_ready(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_once_redis_does_not_sync_them() {
    let redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = server(&redis, Ack::Fsync).await;
    wait_until_ready(&server).await;
    let has_waitaof = redis.command("COMMAND INFO WAITAOF").expect("an answer").contains("waitaof");
    // WAITAOF also works with `everysec`. It never succeeds without syncs or without an AOF.
    let broken = if has_waitaof { "appendfsync no" } else { "appendfsync everysec" };
    // Without an AOF, puts are refused for two reasons.
    for (wrong, right, code) in [
        (broken, "appendfsync always", "store_unavailable"),
        ("appendonly no", "appendonly yes", "store_unsafe"),
    ] {
        run(&redis, &format!("CONFIG SET {wrong}"));
        let began = Instant::now();
        // Writes of the first second may be acknowledged (docs/durability.md).
        let refused = loop {
            let answer = server.post("/jobs", r#"{"topic":"t"}"#).await;
            if answer.status != 201 {
                break answer.problem(503, answer.json()["code"].as_str().unwrap_or_default());
            }
            assert!(began.elapsed() < patience(), "{wrong}: writes are still acknowledged");
            pass(Duration::from_millis(20)).await; // no event reports the server's check
        };
        assert!(has_waitaof || refused["applied"] == "no", "{refused}");
        wait_until_refused(&server, &["fsync"]).await;
        let again = server.post("/jobs", r#"{"topic":"t","id":"refused"}"#).await;
        assert_eq!(again.problem(503, code)["applied"], "no");
        server.get("/jobs/refused").await.problem(404, "job_not_found");
        eventually!(server.get("/topics/t/pop").await.status == 503, "pops are answered");
        server.get("/topics/t/pop").await.problem(503, "store_unavailable");
        run(&redis, &format!("CONFIG SET {right}"));
        wait_until_ready(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_node_that_refuses_writes_is_reported() {
    let cluster = tokio::task::block_in_place(Cluster::steady);
    let server = Server::on_nodes_of(&cluster).await;
    let set = |node: usize, replicas: &str| {
        cluster.command(node, &["CONFIG", "SET", "min-replicas-to-write", replicas]);
    };
    set(1, "3");
    let one = |answer: &Answer| answer.status == 200 && answer.json()["status"] == "degraded";
    assert_eq!(until_ready(&server, one).await.json()["reasons"], json!(["writes_refused"]));
    for node in [0, 2] {
        set(node, "3");
    }
    wait_until_refused(&server, &["NOREPLICAS"]).await;
    for node in 0..3 {
        set(node, "0");
    }
    let well = |answer: &Answer| answer.status == 200 && answer.json()["status"] == "ok";
    until_ready(&server, well).await;
}
