//! The meaning of null, and answers that clients can send back as requests.

use crate::api::prelude::*;

pub async fn null_means_absent_in_every_request(server: Server) {
    let put = json!({
        "topic": "t", "id": null, "body": null, "delay": null, "due_at": null, "ttr": null,
        "max_attempts": null, "backoff": null, "on_conflict": null,
    });
    let id = server.post("/jobs", put).await.ok(201)["id"].clone();
    let path = format!("/jobs/{}", id.as_str().expect("an id"));
    let shown = server.get(&path).await.ok(200);
    let standard = json!({"ttr": 60, "max_attempts": 20, "body": null, "backoff": null});
    assert_shows(&shown, standard);
    server
        .call(Method::PATCH, &path, r#"{"ttr":90,"delay":null,"due_at":null,"max_attempts":null}"#)
        .await
        .ok(200);
    server.call(Method::PATCH, &path, r#"{"ttr":null}"#).await.problem(422, "invalid_field");

    let popped = server
        .post("/topics/t/pop", r#"{"wait":null,"count":null,"ttr":null,"consumer":null}"#)
        .await;
    let reservation = reservation_of(&popped.jobs()[0]);
    let with = |field: &str| json!({"reservation": reservation, field: null}).to_string();
    server.post(&format!("{path}/touch"), with("ttr")).await.ok(200);
    server.post(&format!("{path}/release"), with("delay")).await.ok(200);
    server.post(&format!("{path}/bury"), r#"{"reservation":null,"error":null}"#).await.ok(200);
    server.post(&format!("{path}/kick"), r#"{"id":null}"#).await.ok(200);

    let empty = json!({"ttr": null, "max_attempts": null, "backoff": null, "dead_retention": null});
    server.set_topic("t", empty).await.ok(200);
    server.put_all([json!({"topic": "t", "id": null, "delay": null})]).await;
}

pub async fn a_job_can_be_sent_back_as_a_get_showed_it(server: Server) {
    let backoff = r#"{"initial":"1s","max":"1h","jitter":0.5}"#;
    for (id, put) in [
        ("plain", r#"{"topic":"t","id":"plain","delay":"1h","body":{"a": [1,  2]}}"#.to_owned()),
        ("ready", r#"{"topic":"t","id":"ready"}"#.to_owned()),
        ("list", r#"{"topic":"t","id":"list","backoff":["0s",0.25,"2m"],"ttr":1.5}"#.to_owned()),
        ("grows", format!(r#"{{"topic":"t","id":"grows","delay":60,"backoff":{backoff}}}"#)),
    ] {
        server.put(put).await;
        let path = format!("/jobs/{id}");
        let shown = server.get(&path).await;
        shown.ok(200);
        let changed = server.call(Method::PATCH, &path, shown.text.clone()).await;
        changed.ok(200);
        assert_eq!(changed.text, shown.text, "the same job, sent back, has changed it");
        assert_eq!(server.get(&path).await.text, shown.text);
    }
    // If one field differs, the request changes that field.
    let shown = server.job("list").await;
    let changed = server.patch("list", with(&shown, json!({"ttr": "2m"}))).await.ok(200);
    assert_eq!(changed, with(&shown, json!({"ttr": 120})));
    for field in ["id", "topic", "error"] {
        server.patch("list", json!({"ttr": 30, field: "other"})).await.invalid(field);
    }
    server.patch("list", r#"{"ttr":30,"state":"delayed"}"#).await.invalid("state");
    server.patch("list", r#"{"ttr":30,"attempt":3}"#).await.invalid("attempt");
    for field in ["created_at", "reserved_until", "died_at"] {
        let change = json!({"ttr": 30, field: "2026-01-01T00:00:00Z"});
        server.patch("list", change).await.invalid(field);
    }
    assert_eq!(server.job("list").await["ttr"], 120);
    server.pop("t/pop?count=9").await;
    let held = server.get("/jobs/list").await;
    server.patch("list", held.text).await.problem(409, "job_reserved");
}

pub async fn null_removes_a_backoff_and_nothing_else(server: Server) {
    server.put(r#"{"topic":"t","id":"a","backoff":["1h"]}"#).await;
    let none = server.patch("a", r#"{"backoff":null}"#).await.ok(200);
    assert_shows(&none, json!({"backoff": null, "max_attempts": 2}));
    let popped = server.pop("t/pop").await;
    assert_eq!(server.act("a", "release", held(&popped[0])).await.ok(200)["state"], "ready");
}

pub async fn a_topic_can_be_sent_back_as_a_get_showed_it(server: Server) {
    let defaults = r#"{"ttr":"2m","backoff":["1s","10s"]}"#;
    server.set_topic("t", defaults).await.ok(200);
    server.put(r#"{"topic":"t"}"#).await;
    let shown = server.topic("t").await;
    let alone = shown["defaults"].to_string();
    for text in [shown.to_string(), alone] {
        assert_eq!(server.set_topic("t", text).await.ok(200)["defaults"], shown["defaults"]);
    }
    assert_eq!(server.topic("t").await["defaults"], shown["defaults"]);
    // An entry of the list has no defaults, and must remove none when it is sent back.
    let listed = server.get("/topics").await.ok(200)["topics"][0].to_string();
    for (field, text) in [
        ("defaults", listed),
        ("topic", r#"{"topic":"u","ttr":60}"#.to_owned()),
        ("paused", r#"{"paused":true,"ttr":60}"#.to_owned()),
        ("defaults", r#"{"defaults":{"ttr":60},"ttr":60}"#.to_owned()),
        ("defaults.ttr", r#"{"defaults":{"ttr":0}}"#.to_owned()),
        ("defaults.x", r#"{"defaults":{"x":0}}"#.to_owned()),
        ("defaults", r#"{"defaults":[60,3,null,null,null,null,null,null]}"#.to_owned()),
    ] {
        server.set_topic("t", text).await.invalid(field);
    }
    assert_eq!(server.topic("t").await["defaults"], shown["defaults"]);
    server.set_topic("t", "{}").await.ok(200);
    assert_eq!(server.topic("t").await["defaults"]["ttr"], Value::Null);
}

pub async fn a_problem_names_the_full_path_of_a_field(server: Server) {
    let missing = server.post("/jobs", r#"{"id":"x"}"#).await.problem(422, "invalid_field");
    assert_shows(&missing, json!({"field": "topic", "detail": "`topic` is missing"}));
    let array = server.post("/jobs", "[]").await.problem(422, "invalid_field");
    assert_eq!(array["field"], Value::Null, "the problem names a field of a job: {array}");
    for path in ["/topics/t/pause", "/topics/t/resume", "/topics/t/kick"] {
        let problem = server.post(path, r#"{"reason":"x"}"#).await.invalid("reason");
        let detail = problem["detail"].as_str().expect("text");
        let says = if path.ends_with("pause") { "`for`" } else { "takes no body" };
        assert!(detail.contains(says) && !detail.contains("`id`"), "{problem}");
        server.post(path, "{}").await.ok(200);
    }
}
