//! A Redis that is unavailable for a while, or full, or replaced.

use crate::api::prelude::*;
use crate::api::several_servers::{two_with_rare_polls, until_both_listen};

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_is_a_503_until_it_is_back() {
    // With `everysec`, a Redis that is killed while the disk is busy loses acknowledged writes.
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","id":"before","delay":"300ms"}"#).await;
    redis.kill();
    pass(Duration::from_millis(500)).await; // the job falls due while the store is unavailable

    // The first call may notice the broken connection, and then its outcome is unknown. The store
    // must not have applied any later call.
    let mut applied = Vec::new();
    for number in 0..5 {
        let body = format!(r#"{{"topic":"t","id":"away:{number}"}}"#);
        let answer = server.post("/jobs", body).await;
        let problem = answer.problem(503, "store_unavailable");
        assert!(answer.headers.contains_key("retry-after"));
        applied.push(problem["applied"].as_str().expect("text").to_owned());
    }
    assert_eq!(applied[1..], ["no", "no", "no", "no"], "{applied:?}");
    server.get("/topics/t/pop").await.problem(503, "store_unavailable");
    server.get("/jobs/before").await.problem(503, "store_unavailable");
    server.get("/readyz").await.problem(503, "store_unavailable");
    assert_eq!(server.get("/healthz").await.status, 200);
    let batch = r#"{"jobs":[{"topic":"t"},{"topic":"t"}]}"#;
    server.post("/batch/jobs", batch).await.problem(503, "store_unavailable");

    redis.resume();
    server.until_status("/readyz", 200).await;
    assert_eq!(server.pop_one("t").await["id"], "before");
    for number in 1..5 {
        server.get(&format!("/jobs/away:{number}")).await.problem(404, "job_not_found");
    }
    server.put(r#"{"topic":"t","id":"after"}"#).await;
    assert_eq!(server.pop_one("t").await["id"], "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_refuses_only_puts() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    for id in ["a", "b", "c"] {
        server.put(format!(r#"{{"topic":"t","id":"{id}","max_attempts":1}}"#)).await;
    }
    let jobs = server.pop("t/pop?count=2").await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    let problem =
        server.post("/jobs", r#"{"topic":"t","id":"d"}"#).await.problem(507, "store_full");
    assert_eq!(problem["applied"], "no");
    server.get("/jobs/d").await.problem(404, "job_not_found");
    let popped = server.pop_one("t").await;
    let (one, other) = (id_of(&jobs[0]), id_of(&jobs[1]));
    server.act(one, "finish", "").await.is_done();
    server.act(other, "touch", "").await.ok(200);
    server.act(other, "release", "").await.ok(200);
    server.delete(&format!("/jobs/{}", id_of(&popped))).await.ok(200);
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    server.put(r#"{"topic":"t","id":"d"}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_redis_with_the_same_layout_is_noticed() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    redis.command("SET {dq:0fb}:incarnation other").expect("an answer");
    eventually!(server.get("/readyz").await.ok(200)["status"] != "ok", "no server notices");
    let said = server.get("/readyz").await.ok(200);
    assert_eq!(said["buckets_replaced"], json!([0]), "{said}");
    assert!(
        said["buckets_unavailable"].is_null(),
        "the node of the bucket counts as unavailable: {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_work_again_after_redis_is_back() {
    // With `everysec`, a Redis that is killed while the disk is busy loses acknowledged writes.
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let [one, other] = two_with_rare_polls(&redis).await;
    for round in 0..2 {
        redis.kill();
        redis.resume();
        until_both_listen(&redis).await;
        one.until_status("/readyz", 200).await;
        let waiting = other.begin_pop("t/pop?wait=30s");
        other.until_pops_wait(1).await;
        let id = format!("job:{round}");
        one.put(format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
        assert_eq!(waiting.await.expect("joined")[0]["id"], id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_jobs_are_published_if_no_consumer_waits_here() {
    let redis = Redis::start();
    let [one, other] = two_with_rare_polls(&redis).await;
    let waiting = other.begin_pop("t/pop?wait=30s");
    other.until_pops_wait(1).await;
    // The waiting consumer of the first server gets one of the two jobs. This server has no other
    // consumer.
    let (here, ()) = futures::future::join(one.pop("t/pop?wait=10s"), async {
        one.until_pops_wait(1).await;
        let both = r#"{"jobs":[{"topic":"t","id":"a"},{"topic":"t","id":"b"}]}"#;
        one.post("/batch/jobs", both).await.ok(200);
    })
    .await;
    assert_eq!(here.len(), 1);
    assert_ne!(waiting.await.expect("joined")[0]["id"], here[0]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_the_server_cannot_apply_is_not_acknowledged() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    // Without these commands, a script can make the change, but the server cannot read the changed
    // settings.
    redis.command("ACL SETUSER default -hmget -hscan").expect("an answer");
    let problem = server.post("/topics/t/pause", "").await.problem(503, "store_unavailable");
    assert_eq!(problem["applied"], "unknown");
    redis.command("ACL SETUSER default +hmget +hscan").expect("an answer");
    server.post("/topics/t/pause", "").await.ok(200);
    assert!(server.pop("t/pop").await.is_empty());
    server.post("/topics/t/resume", "").await.ok(200);
    assert_eq!(server.pop_one("t").await["id"], "a");
}
