//! Causes that keep Redis from taking writes: `/readyz` names each, and recovers once it is gone.

use std::{
    fs,
    time::{Duration, Instant},
};

use delay_queue::store::redis::{Ack, Secret};
use serde_json::json;

use crate::support::patience::patience;
use crate::{
    api::{
        acknowledged::{follows, pair},
        server::{Answer, Server, pass},
    },
    support::{Redis, cluster::Cluster},
};

async fn until(server: &Server, what: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let began = Instant::now();
    loop {
        let answer = server.get("/readyz").await;
        if wanted(&answer) {
            return answer;
        }
        assert!(began.elapsed() < patience(), "{what}: {answer:?}");
        pass(Duration::from_millis(20)).await; // no event reports the server's check
    }
}

/// Waits until `/readyz` refuses with a reason that has all of `words`.
async fn refuses(server: &Server, words: &[&str]) {
    let has = |answer: &Answer| {
        answer.status == 503 && words.iter().all(|word| answer.text.contains(word))
    };
    let answer = until(server, &format!("{words:?}"), has).await;
    answer.problem(503, "store_unavailable");
}

async fn is_well(server: &Server, after: &str) {
    until(server, after, |answer| answer.status == 200 && answer.json()["status"] == "ok").await;
    server.put(r#"{"topic":"t"}"#).await;
}

fn ok(redis: &Redis, line: &str) {
    assert_eq!(redis.command(line).as_deref(), Some("+OK\r\n"), "{line}");
}

async fn with_ack(redis: &Redis, ack: Ack) -> Server {
    Server::with(|settings| {
        settings.store.url = Secret(redis.url());
        settings.store.ack = Some(ack);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_writes_is_not_ready() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    is_well(&server, "the start").await;

    ok(&redis, "CONFIG SET min-replicas-to-write 1");
    refuses(&server, &["NOREPLICAS"]).await;
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(503, "store_unavailable");
    ok(&redis, "CONFIG SET min-replicas-to-write 0");
    is_well(&server, "min-replicas-to-write").await;

    // A snapshot that fails: its file cannot replace a directory.
    let dump = redis.dir.path().join("dump.rdb");
    fs::create_dir(&dump).expect("a directory");
    ok(&redis, "CONFIG SET save \"3600 1\"");
    redis.command("BGSAVE").expect("an answer");
    refuses(&server, &["MISCONF"]).await;
    fs::remove_dir(&dump).expect("removed");
    redis.command("BGSAVE").expect("an answer");
    is_well(&server, "MISCONF").await;

    ok(&redis, "CONFIG SET maxmemory 1");
    let full = until(&server, "full", |answer| answer.text.contains("degraded")).await.ok(200);
    assert_eq!(full["reasons"], json!(["store_full"]));
    server.post("/jobs", r#"{"topic":"t"}"#).await.problem(507, "store_full");
    ok(&redis, "CONFIG SET maxmemory 0");
    is_well(&server, "maxmemory").await;

    for (wrong, right, word) in [
        ("maxmemory-policy allkeys-lru", "maxmemory-policy noeviction", "noeviction"),
        ("appendonly no", "appendonly yes", "appendonly"),
    ] {
        ok(&redis, &format!("CONFIG SET {wrong}"));
        refuses(&server, &[word]).await;
        ok(&redis, &format!("CONFIG SET {right}"));
        is_well(&server, wrong).await;
    }

    redis.command("FLUSHALL").expect("an answer");
    until(&server, "the loss", |answer| answer.text.contains("store_replaced")).await;
    server.post("/store/accept-loss", "").await.ok(200);
    is_well(&server, "the loss").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_that_confirms_a_server_is_not_ready() {
    let (master, mut replica) = pair();
    let server = with_ack(&master, Ack::Replica).await;
    is_well(&server, "the start").await;
    replica.kill();
    refuses(&server, &["store.ack = \\\"replica\\\"", "replica"]).await;
    replica.resume();
    follows(&replica);
    is_well(&server, "the end of the replica").await;

    // A replica that is connected and does not answer shows by the write that it does not confirm.
    let pid = replica.child.as_ref().expect("it runs").id().to_string();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    };
    signal("-STOP");
    let unconfirmed = server.post("/jobs", r#"{"topic":"t","id":"unconfirmed"}"#).await;
    assert_eq!(unconfirmed.problem(503, "store_unavailable")["applied"], "unknown");
    refuses(&server, &["no replica"]).await;
    signal("-CONT");
    is_well(&server, "the replica stood still").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_once_fsync_is_not_kept() {
    let redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = with_ack(&redis, Ack::Fsync).await;
    is_well(&server, "the start").await;
    let has_waitaof = redis.command("COMMAND INFO WAITAOF").expect("an answer").contains("waitaof");
    // WAITAOF covers everysec; without a sync at all, or without an AOF, it never succeeds.
    let broken = if has_waitaof { "appendfsync no" } else { "appendfsync everysec" };
    for (wrong, right) in [(broken, "appendfsync always"), ("appendonly no", "appendonly yes")] {
        ok(&redis, &format!("CONFIG SET {wrong}"));
        let began = Instant::now();
        // Writes of the first second may be acknowledged (docs/durability.md).
        let refused = loop {
            let answer = server.post("/jobs", r#"{"topic":"t"}"#).await;
            if answer.status != 201 {
                break answer.problem(503, "store_unavailable");
            }
            assert!(began.elapsed() < patience(), "{wrong}: still acknowledged");
            pass(Duration::from_millis(20)).await; // no event reports the server's check
        };
        assert!(has_waitaof || refused["applied"] == "no", "{refused}");
        refuses(&server, &["fsync"]).await;
        let again = server.post("/jobs", r#"{"topic":"t","id":"refused"}"#).await;
        assert_eq!(again.problem(503, "store_unavailable")["applied"], "no");
        server.get("/jobs/refused").await.problem(404, "job_not_found");
        server.get("/topics/t/pop").await.problem(503, "store_unavailable");
        ok(&redis, &format!("CONFIG SET {right}"));
        is_well(&server, wrong).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_node_that_refuses_writes_is_reported() {
    let cluster = tokio::task::block_in_place(Cluster::start);
    let server = Server::with(|settings| settings.store.url = Secret(cluster.url())).await;
    let set = |replicas: &str| {
        cluster.command(1, &["CONFIG", "SET", "min-replicas-to-write", replicas]);
    };
    set("3");
    let one = |answer: &Answer| answer.status == 200 && answer.json()["status"] == "degraded";
    let said = until(&server, "one node", one).await.json();
    assert_eq!(said["reasons"], json!(["writes_refused"]), "{said}");
    for node in [0, 2] {
        cluster.command(node, &["CONFIG", "SET", "min-replicas-to-write", "3"]);
    }
    refuses(&server, &["NOREPLICAS"]).await;
    for node in 0..3 {
        cluster.command(node, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    }
    let well = |answer: &Answer| answer.status == 200 && answer.json()["status"] == "ok";
    until(&server, "min-replicas-to-write", well).await;
}
