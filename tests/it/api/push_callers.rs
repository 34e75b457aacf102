//! Callers who set and test pushes: their secrets, their tokens, and their share of the tests.

use tokio::net::TcpListener;

use crate::{
    api::{deliveries::push, prelude::*},
    support::endpoint::{Endpoint, status},
};

/// Creates a token with all scopes and returns its text.
async fn token(server: &Server, by: &str, name: &str) -> String {
    let scopes = ["put", "pop", "cancel", "read", "manage", "push", "admin"];
    server.token(by, name, Value::from_iter(scopes.map(|scope| (scope, json!(["*"]))))).await
}

pub async fn secret_headers_are_sent_and_never_shown(server: Server) {
    let endpoint = Endpoint::start(|_| status(204)).await;
    let key = json!({ "secret": "Bearer key" });
    let headers = json!({ "X-Key": { "secret": "hunted" }, "X-Shop": "7", "authorization": key });
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
    let again = with(
        &shown,
        json!({ "headers": { "X-Shop": "7", "X-KEY": "***", "Authorization": "***" } }),
    );
    assert_eq!(server.call(Method::PUT, "/topics/t/push", again).await.ok(200)["headers"], masked);
    assert_eq!(sent().await, expected);
    let changed =
        json!({ "url": endpoint.url(), "headers": { "x-key": { "secret": "new" }, "a": "***" } });
    let changed = server.call(Method::PUT, "/topics/t/push", &changed).await.ok(200);
    assert_eq!(changed["headers"], json!({ "a": "***", "x-key": "***" }));
    assert_eq!(sent().await, [Some("new".to_owned()), None, None]);
    server.stop().await;
}

pub async fn a_token_that_has_set_something_is_not_revoked_silently(server: Server) {
    let root = token(&server, "", "root").await;
    let leaked = token(&server, &root, "leaked").await;
    let get = async |path: &str| server.call_as(&root, Method::GET, path, "").await.ok(200);
    let put = async |token: &str, path: &str, body: &Value| {
        server.call_as(token, Method::PUT, path, body).await
    };
    let url = json!({ "url": "https://hook.invalid/" });
    let schedule = |topic: &str| json!({ "topic": topic, "every": "1h" });
    for topic in ["a", "b"] {
        let shown = put(&leaked, &format!("/topics/{topic}/push"), &url).await;
        assert_eq!(shown.ok(201)["set_by"], "leaked");
        let path = format!("/schedules/{topic}");
        let shown = put(&leaked, &path, &schedule(topic)).await.ok(201);
        assert_eq!(shown["set_by"], "leaked");
        assert_eq!(put(&leaked, &path, &shown).await.ok(200)["set_by"], "leaked");
    }
    let delete = async |name: &str, query: &str| {
        server.call_as(&root, Method::DELETE, &format!("/tokens/{name}{query}"), "").await
    };
    let revoke = async |query: &str| delete("leaked", query).await;
    let refused = revoke("").await.problem(409, "token_in_use");
    let detail = refused["detail"].as_str().expect("text");
    assert!(detail.contains("topic a, b") && detail.contains("schedule a, b"), "{detail}");
    revoke("?then=stop").await.problem(422, "invalid_field");
    // Another token takes over what it sets.
    assert_eq!(put(&root, "/topics/b/push", &url).await.ok(200)["set_by"], "root");
    put(&root, "/schedules/b", &schedule("b")).await.ok(200);
    revoke("?then=pause").await.is_done();
    assert_shows(&get("/topics/a/push").await, json!({"state": "paused", "reason": "revoked"}));
    assert_eq!(get("/topics/b/push").await["state"], "running");
    assert_eq!(get("/schedules/a").await["paused"], true);
    assert_eq!(get("/schedules/b").await["paused"], false);
    revoke("").await.problem(404, "token_not_found");
    delete("root", "").await.problem(409, "token_in_use");
    delete("root", "?then=keep").await.is_done();
    server.stop().await;
}

pub async fn tests_of_one_caller_hold_up_no_other(server: Server) {
    let root = token(&server, "", "root").await;
    let other = token(&server, &root, "other").await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("an address");
    let endpoint = Endpoint::start(|_| status(204)).await;
    for (topic, url) in [("slow", format!("http://{address}/")), ("fast", endpoint.url())] {
        let body = json!({ "url": url, "timeout": "5m" });
        server.call_as(&root, Method::PUT, &format!("/topics/{topic}/push"), body).await.ok(201);
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
    assert_eq!(Server::send(test(&other, "fast")).await.ok(200)["response"]["status"], 204);
    for task in slow {
        task.abort();
    }
    drop(open);
    server.stop().await;
}
