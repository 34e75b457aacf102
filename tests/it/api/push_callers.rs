//! Callers who set and test pushes: their secrets, their tokens, and their share of the tests.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    deliveries::push,
    server::{Answer, Server},
};
use crate::support::endpoint::{Endpoint, status};

/// Calls the server with a token.
async fn call(server: &Server, token: &str, method: Method, path: &str, body: Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Server::send(server.request(method, path).body(body).bearer_auth(token)).await
}

/// Creates a token with all scopes and returns its text.
async fn token(server: &Server, by: Option<&str>, name: &str) -> String {
    let scopes = ["put", "pop", "cancel", "read", "manage", "push", "admin"];
    let scopes: serde_json::Map<String, Value> =
        scopes.iter().map(|scope| ((*scope).to_owned(), json!(["*"]))).collect();
    let body = json!({ "name": name, "scopes": scopes });
    let made = match by {
        Some(by) => call(server, by, Method::POST, "/tokens", body).await,
        None => server.post("/tokens", body.to_string()).await,
    };
    made.ok(201)["token"].as_str().expect("a token").to_owned()
}

pub async fn secret_headers_are_sent_and_never_shown(server: Server) {
    let endpoint = Endpoint::start(|_| status(204)).await;
    let headers = json!({ "X-Key": { "secret": "hunted" }, "X-Shop": "7", "authorization": { "secret": "Bearer key" } });
    push(&server, "t", &endpoint, json!({ "headers": headers })).await;
    let sent = async || {
        server.put(r#"{"topic":"t"}"#).await;
        let request = endpoint.next().await;
        ["x-key", "x-shop", "authorization"].map(|name| request.header(name).map(str::to_owned))
    };
    let expected = ["hunted", "7", "Bearer key"].map(|text| Some(text.to_owned()));
    assert_eq!(sent().await, expected);
    let shown = server.get("/topics/t/push").await;
    assert!(!shown.text.contains("hunted"), "{}", shown.text);
    let shown = shown.ok(200);
    let masked = json!({ "X-Shop": "7", "x-key": "***", "authorization": "***" });
    assert_eq!(shown["headers"], masked);
    let tested = server.post("/topics/t/push/test", "").await;
    assert!(!tested.text.contains("hunted") && !tested.text.contains("Bearer"), "{}", tested.text);
    endpoint.next().await;
    // The answer of a GET keeps the secret values when it is sent back, with names in any case.
    let mut again = shown.clone();
    again["headers"] = json!({ "X-Shop": "7", "X-KEY": "***", "Authorization": "***" });
    let again = server.call(Method::PUT, "/topics/t/push", again.to_string()).await.ok(200);
    assert_eq!(again["headers"], masked);
    assert_eq!(sent().await, expected);
    let changed =
        json!({ "url": endpoint.url(), "headers": { "x-key": { "secret": "new" }, "a": "***" } });
    let changed = server.call(Method::PUT, "/topics/t/push", changed.to_string()).await.ok(200);
    assert_eq!(changed["headers"], json!({ "a": "***", "x-key": "***" }));
    assert_eq!(sent().await, [Some("new".to_owned()), None, None]);
    server.stop().await;
}

pub async fn a_token_that_has_set_something_is_not_revoked_silently(server: Server) {
    let root = token(&server, None, "root").await;
    let leaked = token(&server, Some(&root), "leaked").await;
    let by = async |token: &str, method: Method, path: &str, body: Value| {
        call(&server, token, method, path, body).await
    };
    let url = json!({ "url": "https://hook.invalid/" });
    let schedule = |topic: &str| json!({ "topic": topic, "every": "1h" });
    for topic in ["a", "b"] {
        let shown = by(&leaked, Method::PUT, &format!("/topics/{topic}/push"), url.clone()).await;
        assert_eq!(shown.ok(201)["set_by"], "leaked");
        let path = format!("/schedules/{topic}");
        let shown = by(&leaked, Method::PUT, &path, schedule(topic)).await.ok(201);
        assert_eq!(shown["set_by"], "leaked");
        let sent_back = by(&leaked, Method::PUT, &path, shown).await.ok(200);
        assert_eq!(sent_back["set_by"], "leaked");
    }
    let revoke = async |query: &str| {
        by(&root, Method::DELETE, &format!("/tokens/leaked{query}"), Value::Null).await
    };
    let refused = revoke("").await.problem(409, "token_in_use");
    let detail = refused["detail"].as_str().expect("text");
    assert!(detail.contains("topic a, b") && detail.contains("schedule a, b"), "{detail}");
    revoke("?then=stop").await.problem(422, "invalid_field");
    // Another token takes over what it sets.
    let taken = by(&root, Method::PUT, "/topics/b/push", url).await.ok(200);
    assert_eq!(taken["set_by"], "root");
    by(&root, Method::PUT, "/schedules/b", schedule("b")).await.ok(200);
    assert_eq!(revoke("?then=pause").await.status, 204);
    let state = async |path: &str| by(&root, Method::GET, path, Value::Null).await.ok(200);
    let paused = state("/topics/a/push").await;
    assert_eq!((&paused["state"], &paused["reason"]), (&json!("paused"), &json!("revoked")));
    assert_eq!(state("/topics/b/push").await["state"], "running");
    assert_eq!(state("/schedules/a").await["paused"], true);
    assert_eq!(state("/schedules/b").await["paused"], false);
    revoke("").await.problem(404, "token_not_found");
    let own = async |query: &str| {
        by(&root, Method::DELETE, &format!("/tokens/root{query}"), Value::Null).await
    };
    own("").await.problem(409, "token_in_use");
    assert_eq!(own("?then=keep").await.status, 204);
    server.stop().await;
}

pub async fn tests_of_one_caller_hold_up_no_other(server: Server) {
    let root = token(&server, None, "root").await;
    let other = token(&server, Some(&root), "other").await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("an address");
    let endpoint = Endpoint::start(|_| status(204)).await;
    for (topic, url) in [("slow", format!("http://{address}/")), ("fast", endpoint.url())] {
        let body = json!({ "url": url, "timeout": "5m" });
        call(&server, &root, Method::PUT, &format!("/topics/{topic}/push"), body).await.ok(201);
    }
    let test = |token: &str, topic: &str| {
        let path = format!("/topics/{topic}/push/test");
        server.request(Method::POST, &path).bearer_auth(token)
    };
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(tokio::spawn(test(&root, "slow").send()));
    }
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(silent.accept().await.expect("a connection"));
    }
    Server::send(test(&root, "fast")).await.problem(429, "too_many_requests");
    let tested = Server::send(test(&other, "fast")).await.ok(200);
    assert_eq!(tested["response"]["status"], 204, "{tested}");
    for task in slow {
        task.abort();
    }
    drop(open);
    server.stop().await;
}
