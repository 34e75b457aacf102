//! A Redis at its `maxmemory`: requests that add bytes are refused, all others work.

use crate::api::prelude::*;

const FULL: &str = "CONFIG SET maxmemory 1";

async fn server() -> (Redis, Server) {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    let job = |id| json!({"topic": "t", "id": id, "delay": "1h", "body": "old"});
    server.put_all(["a", "b", "c"].map(job)).await;
    (redis, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replace_opens_a_full_redis_to_no_put() {
    let (redis, server) = server().await;
    let before = server.job("a").await;
    redis.command(FULL).expect("an answer");
    let replace = json!({"topic": "t", "id": "a", "on_conflict": "replace"});
    let keep = json!({"topic": "t", "id": "b", "on_conflict": "keep"});
    server.post("/jobs", &replace).await.problem(507, "store_full");
    for jobs in [
        json!([replace, {"topic": "t", "id": "new"}]),
        json!([{"topic": "t", "id": "new"}, replace]),
        json!([keep, replace, {"topic": "u", "id": "new", "body": "x".repeat(9_000)}]),
    ] {
        let problem =
            server.post("/batch/jobs", json!({"jobs": jobs})).await.problem(507, "store_full");
        assert_eq!(problem["applied"], "no", "{problem}");
        server.get("/jobs/new").await.problem(404, "job_not_found");
    }
    assert_eq!(server.job("a").await, before);
    server.post("/jobs", &keep).await.ok(200);
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    server.post("/jobs", &replace).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_patches_that_make_nothing_longer() {
    let (redis, server) = server().await;
    redis.command(FULL).expect("an answer");
    for longer in [
        json!({"body": "older"}),
        json!({"body": "x".repeat(9_000)}),
        json!({"headers": {"a": "b"}}),
        json!({"delay": "2h", "backoff": ["1s", "2s"]}),
    ] {
        let before = server.job("a").await;
        assert_eq!(server.patch("a", longer).await.problem(507, "store_full")["applied"], "no");
        assert_eq!(server.job("a").await, before);
        let batch = json!({"jobs": [
            {"id": "b", "delay": "3h"}, {"id": "a", "body": "x".repeat(5_000)},
            {"id": "b", "body": "new"},
        ]});
        let results = server.post("/batch/patch", batch).await.results();
        assert_shows(&results[1], json!({"code": "store_full"}));
        assert_eq!([0, 2].map(|n| &results[n]["status"]), [200, 200]);
    }
    server.patch("a", &json!({"delay": "2h", "body": 1})).await.ok(200);
    assert_eq!(server.job("a").await["body"], 1);
    server.patch("a", &json!({"delay": 0})).await.ok(200);
    server.post("/jobs/b/kick", "").await.ok(200);
    server.delete("/jobs/c").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_only_deletes_of_settings_and_schedules() {
    let (redis, server) = server().await;
    let schedule = json!({"topic": "t", "every": "1h"}).to_string();
    server.set_schedule("old", schedule.clone()).await.ok(201);
    server.set_topic("old", r#"{"ttr":"5s"}"#).await.ok(200);
    redis.command(FULL).expect("an answer");
    server.set_schedule("new", schedule).await.problem(507, "store_full");
    server.set_topic("new", r#"{"ttr":"5s"}"#).await.problem(507, "store_full");
    server.delete("/schedules/old").await.is_done();
    server.get("/schedules/new").await.problem(404, "schedule_not_found");
    server.set_topic("old", "{}").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_creates_no_token_and_revokes_old_ones() {
    let (redis, server) = server().await;
    let root = server.token("", "root", json!({"admin": ["*"]})).await;
    server.token(&root, "old", json!({"put": ["t"]})).await;
    redis.command(FULL).expect("an answer");
    let new = json!({"name": "new", "scopes": {"put": ["t"]}});
    let refused = server.call_as(&root, Method::POST, "/tokens", new).await;
    assert_eq!(refused.problem(507, "store_full")["applied"], "no");
    server.call_as(&root, Method::DELETE, "/tokens/old", "").await.is_done();
    let tokens = server.call_as(&root, Method::GET, "/tokens", "").await.ok(200);
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1), "{tokens}");
}
