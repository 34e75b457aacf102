//! A Redis at its `maxmemory`: requests that add bytes are refused, all others work.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{api::server::Server, support::Redis};

const FULL: &str = "CONFIG SET maxmemory 1";

async fn server() -> (Arc<Redis>, Server) {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    for id in ["a", "b", "c"] {
        server
            .put(&json!({"topic": "t", "id": id, "delay": "1h", "body": "old"}).to_string())
            .await;
    }
    (redis, server)
}

async fn get(server: &Server, id: &str) -> Value {
    server.get(&format!("/jobs/{id}")).await.ok(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replace_opens_a_full_redis_to_no_put() {
    let (redis, server) = server().await;
    let before = get(&server, "a").await;
    redis.command(FULL).expect("an answer");
    let replace = json!({"topic": "t", "id": "a", "on_conflict": "replace"});
    let keep = json!({"topic": "t", "id": "b", "on_conflict": "keep"});
    server.post("/jobs", replace.to_string()).await.problem(507, "store_full");
    for jobs in [
        json!([replace, {"topic": "t", "id": "new"}]),
        json!([{"topic": "t", "id": "new"}, replace]),
        json!([keep, replace, {"topic": "u", "id": "new", "body": "x".repeat(9_000)}]),
    ] {
        let problem = server
            .post("/batch/jobs", json!({"jobs": jobs}).to_string())
            .await
            .problem(507, "store_full");
        assert_eq!(problem["applied"], "no", "{problem}");
        server.get("/jobs/new").await.problem(404, "job_not_found");
    }
    assert_eq!(get(&server, "a").await, before);
    server.post("/jobs", keep.to_string()).await.ok(200);
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    server.post("/jobs", replace.to_string()).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_patches_that_make_nothing_longer() {
    let (redis, server) = server().await;
    redis.command(FULL).expect("an answer");
    let patch = async |id: &str, change: &Value| {
        server.call(Method::PATCH, &format!("/jobs/{id}"), change.to_string()).await
    };
    for longer in [
        json!({"body": "older"}),
        json!({"body": "x".repeat(9_000)}),
        json!({"headers": {"a": "b"}}),
        json!({"delay": "2h", "backoff": ["1s", "2s"]}),
    ] {
        let before = get(&server, "a").await;
        let problem = patch("a", &longer).await.problem(507, "store_full");
        assert_eq!(problem["applied"], "no", "{problem}");
        assert_eq!(get(&server, "a").await, before);
        let batch = json!({"jobs": [
            {"id": "b", "delay": "3h"}, {"id": "a", "body": "x".repeat(5_000)}, {"id": "b", "body": "new"},
        ]});
        let results = server.post("/batch/patch", batch.to_string()).await.ok(200);
        assert_eq!(results["results"][0]["status"], 200, "{results}");
        assert_eq!(results["results"][1]["code"], "store_full", "{results}");
        assert_eq!(results["results"][2]["status"], 200, "{results}");
    }
    patch("a", &json!({"delay": "2h", "body": 1})).await.ok(200);
    assert_eq!(get(&server, "a").await["body"], 1);
    patch("a", &json!({"delay": 0})).await.ok(200);
    server.post("/jobs/b/kick", "").await.ok(200);
    server.delete("/jobs/c").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_only_deletes_of_settings_and_schedules() {
    let (redis, server) = server().await;
    let schedule = json!({"topic": "t", "every": "1h"}).to_string();
    server.call(Method::PUT, "/schedules/old", schedule.clone()).await.ok(201);
    server.call(Method::PUT, "/topics/old", r#"{"ttr":"5s"}"#).await.ok(200);
    redis.command(FULL).expect("an answer");
    server.call(Method::PUT, "/schedules/new", schedule).await.problem(507, "store_full");
    server.call(Method::PUT, "/topics/new", r#"{"ttr":"5s"}"#).await.problem(507, "store_full");
    assert_eq!(server.delete("/schedules/old").await.status, 204);
    server.get("/schedules/new").await.problem(404, "schedule_not_found");
    server.call(Method::PUT, "/topics/old", "{}").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_creates_no_token_and_revokes_old_ones() {
    let (redis, server) = server().await;
    let root = server.token("", "root", json!({"admin": ["*"]})).await;
    server.token(&root, "old", json!({"put": ["t"]})).await;
    redis.command(FULL).expect("an answer");
    let call = |method, path: &str| server.request(method, path).bearer_auth(&root);
    let new = json!({"name": "new", "scopes": {"put": ["t"]}}).to_string();
    let refused = Server::send(call(Method::POST, "/tokens").body(new)).await;
    let problem = refused.problem(507, "store_full");
    assert_eq!(problem["applied"], "no", "{problem}");
    assert_eq!(Server::send(call(Method::DELETE, "/tokens/old")).await.status, 204);
    let tokens = Server::send(call(Method::GET, "/tokens")).await.ok(200);
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1), "{tokens}");
}
