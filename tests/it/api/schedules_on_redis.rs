//! Schedules whose entries another program has changed in Redis.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    api::server::{Answer, Server},
    support::Redis,
};

async fn put(server: &Server, name: &str, body: &Value) -> Answer {
    server.call(Method::PUT, &format!("/schedules/{name}"), body.to_string()).await
}

fn daily(topic: &str) -> Value {
    json!({ "topic": topic, "every": "1d" })
}

/// Replaces the text of a schedule by one that no version can read.
fn damage(redis: &Redis, name: &str) {
    let set = redis.command(&format!("HSET {{dq:schedules}}:all {name} {{}}"));
    assert_eq!(set.as_deref(), Some(":0\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_schedule_can_be_set_again_and_deleted() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    for name in ["again", "deleted"] {
        put(&server, name, &daily("t")).await.ok(201);
        damage(&redis, name);
        let path = format!("/schedules/{name}");
        server.get(&path).await.problem(500, "internal");
        for action in ["pause", "resume", "run"] {
            server.post(&format!("{path}/{action}"), "").await.problem(500, "internal");
        }
    }
    let set = put(&server, "again", &daily("t")).await.ok(200);
    assert_eq!(server.get("/schedules/again").await.ok(200), set);
    assert_eq!(server.delete("/schedules/deleted").await.status, 204);
    server.get("/schedules/deleted").await.problem(404, "schedule_not_found");
    assert_eq!(put(&server, "deleted", &daily("t")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_token_of_all_topics_changes_an_unreadable_schedule() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    put(&server, "s", &daily("t")).await.ok(201);
    damage(&redis, "s");
    let all = json!({ "admin": ["*"], "manage": ["*"], "put": ["*"] });
    let root = json!({ "name": "root", "scopes": all });
    let root = server.post("/tokens", root.to_string()).await.ok(201)["token"].take();
    let root = root.as_str().expect("a token").to_owned();
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        let request = server.request(method, path).bearer_auth(token).body(body.to_string());
        Server::send(request).await
    };
    for (name, scopes) in [
        ("one-topic", json!({ "manage": ["t"], "put": ["t"] })),
        ("one-manage", json!({ "manage": ["t"], "put": ["*"] })),
        ("one-put", json!({ "manage": ["*"], "put": ["t"] })),
    ] {
        let body = json!({ "name": name, "scopes": scopes });
        let made = call(&root, Method::POST, "/tokens", body).await.ok(201);
        let token = made["token"].as_str().expect("a token");
        call(token, Method::PUT, "/schedules/s", daily("t")).await.problem(403, "forbidden");
        call(token, Method::DELETE, "/schedules/s", json!({})).await.problem(403, "forbidden");
    }
    call(&root, Method::PUT, "/schedules/s", daily("t")).await.ok(200);
}
#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_past_names_without_a_text() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        put(&server, name, &daily("t")).await.ok(201);
    }
    assert_eq!(redis.command("HDEL {dq:schedules}:all a b d g").as_deref(), Some(":4\r\n"));
    for limit in 1..8 {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/schedules?limit={limit}{cursor}")).await.ok(200);
            let schedules = page["schedules"].as_array().expect("schedules");
            all.extend(schedules.iter().map(|schedule| schedule["name"].clone()));
            let Some(next) = page["cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(all, ["c", "e", "f"], "in pages of {limit}");
    }
}
