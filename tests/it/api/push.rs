//! The push of a topic: its routes, and the fields that they take and show.

use crate::api::prelude::*;

const URL: &str = "https://hook.invalid/jobs";

async fn put(server: &Server, body: &Value) -> Answer {
    server.call(Method::PUT, "/topics/t/push", body).await
}

async fn assert_refused(server: &Server, fields: Value, field: &str) {
    put(server, &with(&json!({ "url": URL }), fields)).await.invalid(field);
}

/// Returns the text of a secret with a key of this length in bytes, which must be divisible by 3.
fn secret(bytes: usize) -> String {
    format!("whsec_{}", "AQID".repeat(bytes / 3))
}

pub async fn a_push_is_set_shown_and_removed(server: Server) {
    for route in ["GET ", "DELETE ", "POST /pause", "POST /resume", "POST /test"] {
        let (method, path) = route.split_once(' ').expect("a route");
        let (method, path) = (method.parse().expect("a method"), format!("/topics/t/push{path}"));
        server.call(method, &path, "").await.problem(404, "push_not_found");
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
    let expected = json!({
        "concurrency": 1000, "rate": "500/h", "secret_count": 2, "backoff": [1, 120],
        "headers": { "X-Shop": "7", "authorization": "***" },
        "batch": { "max": 1000, "linger": 10 },
    });
    assert_shows(&shown, expected);
    assert_eq!(server.get("/v1/topics/t/push").await.ok(200), shown);
    server.delete("/topics/t/push").await.is_done();
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
    put(&server, &other).await.invalid("topic");
}

pub async fn secrets_of_a_push_stay_until_they_are_replaced(server: Server) {
    let count = async |fields: Value| {
        let answer = put(&server, &with(&json!({ "url": URL }), fields)).await;
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
    assert_eq!(server.topic("t").await["paused"], false);
    server.post("/topics/t/push/pause", r#"{"for":"1m"}"#).await.problem(422, "invalid_field");
}

pub async fn a_test_of_a_push_shows_its_request_and_its_answer(server: Server) {
    let push = json!({ "url": URL, "timeout": 1, "headers": { "authorization": "Bearer key" } });
    put(&server, &push).await.ok(201);
    let answer = server.post("/topics/t/push/test", "").await;
    assert!(!answer.text.contains("Bearer"), "{}", answer.text);
    let tested = answer.ok(200);
    assert_shows(&tested["request"], json!({ "method": "POST", "url": URL }));
    assert!(tested["request"]["headers"].is_object() && tested["request"]["body"].is_string());
    let response = &tested["response"];
    assert!(response["status"].is_number() != response["error"].is_string(), "{tested}");
}

pub async fn a_topic_with_a_push_is_listed_with_it(server: Server) {
    put(&server, &json!({ "url": URL })).await.ok(201);
    let list = server.get("/topics").await.ok(200);
    assert_shows(&list["topics"][0], json!({"topic": "t", "push": true}));
    let topic = server.topic("t").await;
    assert_eq!(topic["push"], true);
    server.set_topic("t", &topic).await.ok(200);
    server.delete("/topics/t/push").await;
    assert_eq!(server.topic("t").await["push"], false);
    assert_eq!(server.get("/topics").await.ok(200)["topics"], json!([]));
    assert!(server.get("/overview").await.ok(200)["pushes"].is_array());
}

pub async fn a_bad_push_is_refused_by_its_field(server: Server) {
    let long = format!("https://hook.invalid/{}", "x".repeat(2028));
    let many: serde_json::Map<_, _> = (0..32).map(|n| (n.to_string(), json!(""))).collect();
    let too_many = with(&json!(many), json!({ "authorization": "a" }));
    for (field, values) in [
        ("url", json!([null, 1, "", long, "https://höok.invalid/", "https://hook.invalid/a b"])),
        ("url", json!(["hook.invalid/jobs", "ftp://hook.invalid/", "https://", "http:///jobs"])),
        ("url", json!(["https://user@hook.invalid/", "https://hook.invalid:99999/"])),
        ("url", json!(["http://10.0.0.1:9277/jobs", "http://[::1]/", "http://169.254.169.254/"])),
        ("concurrency", json!([0, 1001, 1.5])),
        ("rate", json!(["100", "0/s", 100])),
        ("timeout", json!([0.5, "301s", "1"])),
        ("batch.max", json!([{ "max": 0 }, { "max": 1001 }])),
        ("batch.linger", json!([{ "linger": "11s" }])),
        ("batch.size", json!([{ "size": 1 }])),
        ("batch", json!([[1, 1]])),
        ("backoff", json!([[]])),
        ("headers", json!([{ "host": "x" }, { "webhook-id": "x" }, { "Accept-Encoding": "gzip" }])),
        ("headers", json!([{ "authorization": "a", "Authorization": "b" }, too_many])),
        ("headers", json!([{ "authorization": "ä" }, { "host": { "secret": "b" } }])),
        ("headers", json!([{ "a": { "secret": "b" }, "A": "c" }])),
        ("headers.a", json!([{ "a": 1 }, { "a": { "secret": "***" } }])),
        ("headers.a.secret", json!([{ "a": { "secret": 1 } }])),
        ("headers.a.c", json!([{ "a": { "secret": "b", "c": 1 } }])),
        ("header", json!([{}])),
        ("paused", json!([false])),
    ] {
        let name = field.split('.').next().expect("a name");
        for value in values.as_array().expect("values") {
            assert_refused(&server, json!({ name: value }), field).await;
        }
    }
    let refused = put(&server, &json!({ "url": "https://user:word@hook.invalid/" })).await;
    refused.invalid("url");
    assert!(!refused.text.contains("word"), "{}", refused.text);
    server.get("/topics/t/push").await.problem(404, "push_not_found");
    put(&server, &json!({ "url": URL, "headers": many })).await.ok(201);
    put(&server, &json!({ "url": long[..long.len() - 1] })).await.ok(200);
}

pub async fn a_bad_secret_is_refused_and_never_repeated(server: Server) {
    let marked = "TWFya2VkTWFya2Vk";
    let long = format!("whsec_{}", marked.repeat(2));
    for (secrets, field) in [
        (json!([secret(24), format!("whsec_{marked}")]), "secrets[1]"),
        (json!([secret(24), format!("{long}!")]), "secrets[1]"),
        (json!([secret(24), marked.repeat(2)]), "secrets[1]"),
        (json!([{ "key": marked }]), "secrets[0]"),
        (json!(long), "secrets"),
        (json!({ "whsec": marked }), "secrets"),
        (json!(vec![long; 6]), "secrets"),
    ] {
        let answer = put(&server, &json!({ "url": URL, "secrets": secrets })).await;
        answer.invalid(field);
        assert!(!answer.text.contains(marked), "{}", answer.text);
    }
}
