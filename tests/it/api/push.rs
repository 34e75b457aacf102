//! The push of a topic: its routes, and the fields that they take and show.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::server::{Answer, Server};

const URL: &str = "https://hook.invalid/jobs";

async fn put(server: &Server, body: &Value) -> Answer {
    server.call(Method::PUT, "/topics/t/push", body.to_string()).await
}

/// Asserts that the server refuses a push with these fields by the name of the field.
async fn assert_refused(server: &Server, fields: Value, field: &str) {
    let mut body = json!({ "url": URL });
    body.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    let refused = put(server, &body).await.problem(422, "invalid_field");
    assert_eq!(refused["field"], field, "{body}: {refused}");
}

/// Returns the text of a secret with a key of this length in bytes, which must be divisible by 3.
fn secret(bytes: usize) -> String {
    format!("whsec_{}", "AQID".repeat(bytes / 3))
}

pub async fn a_push_is_set_shown_and_removed(server: Server) {
    for (method, path) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::POST, "/pause"),
        (Method::POST, "/resume"),
        (Method::POST, "/test"),
    ] {
        let answer = server.call(method, &format!("/topics/t/push{path}"), "").await;
        answer.problem(404, "push_not_found");
    }
    let least = put(&server, &json!({ "url": URL })).await.ok(201);
    let expected = json!({
        "topic": "t", "url": URL, "concurrency": 16, "rate": null, "timeout": 15.0, "secret_count": 0,
        "batch": null, "backoff": null, "state": "running", "reason": null, "set_by": null,
        "in_flight": 0,
        "rates": { "delivered": 0.0, "failed": 0.0 }, "last_failures": [],
    });
    assert_eq!(as_numbers(least), as_numbers(expected));
    let whole = json!({
        "url": "http://hook.invalid:8080/?a=b", "concurrency": 1000, "rate": "500/h", "timeout": "5m",
        "secrets": [secret(24), secret(63)], "headers": { "X-Shop": "7", "Authorization": "Bearer key" },
        "batch": { "max": 1000, "linger": "10s" }, "backoff": ["1s", "2m"],
    });
    let shown = put(&server, &whole).await.ok(200);
    assert_eq!((&shown["concurrency"], &shown["rate"]), (&json!(1000), &json!("500/h")));
    assert_eq!((&shown["secret_count"], &shown["backoff"]), (&json!(2), &json!([1, 120])));
    assert_eq!(shown["headers"], json!({ "X-Shop": "7", "authorization": "***" }));
    assert_eq!(shown["batch"], json!({ "max": 1000, "linger": 10 }));
    assert_eq!(server.get("/v1/topics/t/push").await.ok(200), shown);
    assert_eq!(server.delete("/topics/t/push").await.status, 204);
    server.get("/topics/t/push").await.problem(404, "push_not_found");
    put(&server, &json!({ "url": URL, "batch": {} })).await.ok(201);
    let shown = server.get("/topics/t/push").await.ok(200);
    assert_eq!(shown["batch"], json!({ "max": 100, "linger": 0.2 }));
}

/// Returns a value whose whole numbers are floating-point numbers.
fn as_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, as_numbers(field))).collect()
        }
        other => other,
    }
}

pub async fn a_push_can_be_sent_back_as_a_get_showed_it(server: Server) {
    let whole = json!({
        "url": URL, "rate": "30/m", "timeout": 1, "secrets": [secret(24)], "batch": { "max": 1, "linger": 0 },
        "headers": { "AUTHORIZATION": "Bearer key", "a": "1" }, "backoff": { "initial": 1, "max": "1h" },
    });
    put(&server, &whole).await.ok(201);
    let shown = server.get("/topics/t/push").await.ok(200);
    assert_eq!(shown["headers"]["authorization"], "***");
    assert_eq!(put(&server, &shown).await.ok(200), shown);
    let nulls = json!({
        "url": URL, "concurrency": null, "rate": null, "timeout": null, "secrets": null, "headers": null,
        "batch": null, "backoff": null, "topic": null, "state": null,
    });
    let shown = put(&server, &nulls).await.ok(200);
    assert_eq!((&shown["secret_count"], shown.get("headers")), (&json!(1), None));
    let other = json!({ "url": URL, "topic": "other" });
    let refused = put(&server, &other).await.problem(422, "invalid_field");
    assert_eq!(refused["field"], "topic");
}

pub async fn secrets_of_a_push_stay_until_they_are_replaced(server: Server) {
    let count = async |fields: Value| {
        let mut body = json!({ "url": URL });
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("f").clone());
        let answer = put(&server, &body).await;
        assert!(!answer.text.contains("whsec_"), "{}", answer.text);
        (answer.status.as_u16(), answer.json()["secret_count"].clone())
    };
    let five = vec![secret(24); 5];
    assert_eq!(count(json!({ "secrets": five })).await, (201, json!(5)));
    assert_eq!(count(json!({})).await, (200, json!(5)));
    assert_eq!(count(json!({ "secrets": [secret(30)] })).await, (200, json!(1)));
    assert_eq!(count(json!({ "secrets": [] })).await, (200, json!(0)));
    assert_eq!(count(json!({ "secrets": null })).await, (200, json!(0)));
}

pub async fn only_a_stored_authorization_can_be_kept(server: Server) {
    let field = "headers.authorization";
    assert_refused(&server, json!({ "headers": { "authorization": "***" } }), field).await;
    server.get("/topics/t/push").await.problem(404, "push_not_found");
    let with = |value: &str| json!({ "url": URL, "headers": { "Authorization": value } });
    put(&server, &with("Bearer key")).await.ok(201);
    let kept = put(&server, &with("***")).await.ok(200);
    assert_eq!(kept["headers"], json!({ "authorization": "***" }));
    put(&server, &json!({ "url": URL })).await.ok(200);
    assert_refused(&server, json!({ "headers": { "authorization": "***" } }), field).await;
}

pub async fn a_pause_of_a_push_lasts_until_it_is_resumed(server: Server) {
    put(&server, &json!({ "url": URL })).await.ok(201);
    let state = |shown: &Value| (shown["state"].clone(), shown["reason"].clone());
    let paused = (json!("paused"), json!("requested"));
    for _ in 0..2 {
        assert_eq!(state(&server.post("/topics/t/push/pause", "{}").await.ok(200)), paused);
    }
    let changed = put(&server, &json!({ "url": URL, "concurrency": 1 })).await.ok(200);
    assert_eq!((state(&changed), &changed["concurrency"]), (paused, &json!(1)));
    let resumed = server.post("/v1/topics/t/push/resume", "").await.ok(200);
    assert_eq!(state(&resumed), (json!("running"), json!(null)));
    assert_eq!(server.get("/topics/t").await.ok(200)["paused"], false);
    let refused = server.post("/topics/t/push/pause", r#"{"for":"1m"}"#).await;
    refused.problem(422, "invalid_field");
}

pub async fn a_test_of_a_push_shows_its_request_and_its_answer(server: Server) {
    let push = json!({ "url": URL, "timeout": 1, "headers": { "authorization": "Bearer key" } });
    put(&server, &push).await.ok(201);
    let answer = server.post("/topics/t/push/test", "").await;
    assert!(!answer.text.contains("Bearer"), "{}", answer.text);
    let tested = answer.ok(200);
    assert_eq!(
        (&tested["request"]["method"], &tested["request"]["url"]),
        (&json!("POST"), &json!(URL))
    );
    assert!(tested["request"]["headers"].is_object() && tested["request"]["body"].is_string());
    let response = &tested["response"];
    assert!(response["status"].is_number() != response["error"].is_string(), "{tested}");
}

pub async fn a_topic_with_a_push_is_listed_with_it(server: Server) {
    put(&server, &json!({ "url": URL })).await.ok(201);
    let list = server.get("/topics").await.ok(200);
    assert_eq!(
        (&list["topics"][0]["topic"], &list["topics"][0]["push"]),
        (&json!("t"), &json!(true))
    );
    let topic = server.get("/topics/t").await.ok(200);
    assert_eq!(topic["push"], true);
    server.call(Method::PUT, "/topics/t", topic.to_string()).await.ok(200);
    server.delete("/topics/t/push").await;
    assert_eq!(server.get("/topics/t").await.ok(200)["push"], false);
    assert_eq!(server.get("/topics").await.ok(200)["topics"], json!([]));
    assert!(server.get("/overview").await.ok(200)["pushes"].is_array());
}

pub async fn a_bad_push_is_refused_by_its_field(server: Server) {
    for (fields, field) in [
        (json!({ "url": null }), "url"),
        (json!({ "url": 1 }), "url"),
        (json!({ "url": format!("https://hook.invalid/{}", "x".repeat(2028)) }), "url"),
        (json!({ "url": "https://höok.invalid/" }), "url"),
        (json!({ "url": "https://hook.invalid/a b" }), "url"),
        (json!({ "concurrency": 0 }), "concurrency"),
        (json!({ "concurrency": 1001 }), "concurrency"),
        (json!({ "concurrency": 1.5 }), "concurrency"),
        (json!({ "rate": "100" }), "rate"),
        (json!({ "rate": "0/s" }), "rate"),
        (json!({ "rate": 100 }), "rate"),
        (json!({ "timeout": 0.5 }), "timeout"),
        (json!({ "timeout": "301s" }), "timeout"),
        (json!({ "timeout": "1" }), "timeout"),
        (json!({ "batch": { "max": 0 } }), "batch.max"),
        (json!({ "batch": { "max": 1001 } }), "batch.max"),
        (json!({ "batch": { "linger": "11s" } }), "batch.linger"),
        (json!({ "batch": { "size": 1 } }), "batch.size"),
        (json!({ "batch": [1, 1] }), "batch"),
        (json!({ "backoff": [] }), "backoff"),
        (json!({ "headers": { "host": "x" } }), "headers"),
        (json!({ "headers": { "webhook-id": "x" } }), "headers"),
        (json!({ "headers": { "authorization": "a", "Authorization": "b" } }), "headers"),
        (json!({ "headers": { "authorization": "ä" } }), "headers"),
        (json!({ "headers": { "a": 1 } }), "headers.a"),
        (json!({ "headers": { "Accept-Encoding": "gzip" } }), "headers"),
        (json!({ "headers": { "a": { "secret": 1 } } }), "headers.a.secret"),
        (json!({ "headers": { "a": { "secret": "b", "c": 1 } } }), "headers.a.c"),
        (json!({ "headers": { "a": { "secret": "***" } } }), "headers.a"),
        (json!({ "headers": { "a": { "secret": "b" }, "A": "c" } }), "headers"),
        (json!({ "headers": { "host": { "secret": "b" } } }), "headers"),
        (json!({ "header": {} }), "header"),
        (json!({ "paused": false }), "paused"),
    ] {
        assert_refused(&server, fields, field).await;
    }
    server.get("/topics/t/push").await.problem(404, "push_not_found");
    let many: serde_json::Map<_, _> = (0..32).map(|n| (n.to_string(), json!(""))).collect();
    let mut too_many = many.clone();
    too_many.insert("authorization".to_owned(), json!("a"));
    assert_refused(&server, json!({ "headers": too_many }), "headers").await;
    put(&server, &json!({ "url": URL, "headers": many })).await.ok(201);
    put(&server, &json!({ "url": format!("https://hook.invalid/{}", "x".repeat(2027)) }))
        .await
        .ok(200);
}

pub async fn a_bad_secret_is_refused_and_never_repeated(server: Server) {
    let marked = "TWFya2VkTWFya2Vk";
    let bad = |text: String| json!([secret(24), text]);
    for (secrets, field) in [
        (bad(format!("whsec_{marked}")), "secrets[1]"),
        (bad(format!("whsec_{}AAAAAAA=", marked.repeat(5))), "secrets[1]"),
        (bad(format!("whsec_{}AB==", marked.repeat(2))), "secrets[1]"),
        (bad(format!("whsec_{}!", marked.repeat(2))), "secrets[1]"),
        (bad(marked.repeat(2)), "secrets[1]"),
        (json!([{ "key": marked }]), "secrets[0]"),
        (json!(format!("whsec_{}", marked.repeat(2))), "secrets"),
        (json!({ "whsec": marked }), "secrets"),
        (json!(vec![format!("whsec_{}", marked.repeat(2)); 6]), "secrets"),
    ] {
        let body = json!({ "url": URL, "secrets": secrets });
        let answer = put(&server, &body).await;
        let refused = answer.problem(422, "invalid_field");
        assert_eq!(refused["field"], field, "{refused}");
        assert!(!answer.text.contains(marked), "{}", answer.text);
    }
}

pub async fn bad_urls_of_a_push_are_refused(server: Server) {
    for url in [
        "",
        "hook.invalid/jobs",
        "ftp://hook.invalid/",
        "https://",
        "http:///jobs",
        "https://user@hook.invalid/",
        "https://user:word@hook.invalid/",
        "https://hook.invalid:99999/",
        "https://hook invalid/",
        "http://10.0.0.1:9277/jobs",
        "http://[::1]/",
        "http://169.254.169.254/latest",
    ] {
        assert_refused(&server, json!({ "url": url }), "url").await;
    }
    let refused = put(&server, &json!({ "url": "https://user:word@hook.invalid/" })).await;
    assert!(!refused.text.contains("word"), "{}", refused.text);
}

pub async fn a_push_needs_its_own_scope(server: Server) {
    let scopes = ["put", "pop", "cancel", "read", "manage", "push", "admin"];
    let everything: serde_json::Map<String, Value> =
        scopes.iter().map(|scope| ((*scope).to_owned(), json!(["*"]))).collect();
    let first = json!({ "name": "root", "scopes": everything });
    let root = server.post("/tokens", first.to_string()).await.ok(201);
    let root = root["token"].as_str().expect("a token").to_owned();
    let send = async |token: &str, method: Method, path: &str, body: String| {
        Server::send(server.request(method, path).body(body).bearer_auth(token)).await
    };
    let token = async |name: &str, scopes: Value| {
        let body = json!({ "name": name, "scopes": scopes }).to_string();
        let made = send(&root, Method::POST, "/tokens", body).await.ok(201);
        made["token"].as_str().expect("a token").to_owned()
    };
    let pusher = token("pusher", json!({ "push": ["t"] })).await;
    let manager = token("manager", json!({ "manage": ["*"], "put": ["*"], "pop": ["*"] })).await;
    let reader = token("reader", json!({ "read": ["t"] })).await;
    let (path, body) = ("/topics/t/push", json!({ "url": URL, "timeout": 1 }).to_string());
    send(&manager, Method::PUT, path, body.clone()).await.problem(403, "forbidden");
    send(&reader, Method::PUT, path, body.clone()).await.problem(403, "forbidden");
    send(&pusher, Method::PUT, "/topics/u/push", body.clone()).await.problem(403, "forbidden");
    send(&pusher, Method::PUT, path, body).await.ok(201);
    for act in ["pause", "resume", "test"] {
        let path = format!("{path}/{act}");
        for other in [&manager, &reader] {
            send(other, Method::POST, &path, String::new()).await.problem(403, "forbidden");
        }
        send(&pusher, Method::POST, &path, String::new()).await.ok(200);
    }
    send(&manager, Method::GET, path, String::new()).await.problem(403, "forbidden");
    let shown = send(&pusher, Method::GET, path, String::new()).await.ok(200);
    assert_eq!(send(&reader, Method::GET, path, String::new()).await.ok(200), shown);
    send(&reader, Method::DELETE, path, String::new()).await.problem(403, "forbidden");
    assert_eq!(send(&pusher, Method::DELETE, path, String::new()).await.status, 204);
}
