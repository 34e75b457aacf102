//! The meaning of null, and answers that clients can send back as requests.

use crate::api::prelude::*;

pub async fn null_means_absent_in_every_request(server: Server) {
    let put = json!({
        "topic": "t", "id": null, "body": null, "delay": null, "due_at": null, "ttr": null,
        "max_attempts": null, "backoff": null, "on_conflict": null,
    });
    let id = server.post("/jobs", put.to_string()).await.ok(201)["id"].clone();
    let path = format!("/jobs/{}", id.as_str().expect("an id"));
    let shown = server.get(&path).await.ok(200);
    assert_eq!((&shown["ttr"], &shown["max_attempts"]), (&60.into(), &20.into()));
    assert_eq!((&shown["body"], &shown["backoff"]), (&Value::Null, &Value::Null));
    server
        .call(Method::PATCH, &path, r#"{"ttr":90,"delay":null,"due_at":null,"max_attempts":null}"#)
        .await
        .ok(200);
    let nothing = server.call(Method::PATCH, &path, r#"{"ttr":null}"#).await;
    nothing.problem(422, "invalid_field");

    let popped = server.post("/topics/t/pop", r#"{"wait":null,"count":null,"ttr":null}"#).await;
    let reservation = reservation_of(&popped.jobs()[0]);
    let with = |field: &str| json!({"reservation": reservation, field: null}).to_string();
    server.post(&format!("{path}/touch"), with("ttr")).await.ok(200);
    server.post(&format!("{path}/release"), with("delay")).await.ok(200);
    server.post(&format!("{path}/bury"), r#"{"reservation":null,"error":null}"#).await.ok(200);
    server.post(&format!("{path}/kick"), r#"{"id":null}"#).await.ok(200);

    let empty = json!({"ttr": null, "max_attempts": null, "backoff": null, "dead_retention": null});
    server.call(Method::PUT, "/topics/t", empty.to_string()).await.ok(200);
    let batch = json!({"jobs": [{"topic": "t", "id": null, "delay": null}]});
    let results = server.post("/batch/jobs", batch.to_string()).await.ok(200);
    assert_eq!(results["results"][0]["status"], 201, "{results}");
}

pub async fn a_job_can_be_sent_back_as_a_get_showed_it(server: Server) {
    let backoff = r#"{"initial":"1s","max":"1h","jitter":0.5}"#;
    for (id, put) in [
        ("plain", r#"{"topic":"t","id":"plain","delay":"1h","body":{"a": [1,  2]}}"#.to_owned()),
        ("ready", r#"{"topic":"t","id":"ready"}"#.to_owned()),
        ("list", r#"{"topic":"t","id":"list","backoff":["0s",0.25,"2m"],"ttr":1.5}"#.to_owned()),
        ("grows", format!(r#"{{"topic":"t","id":"grows","delay":60,"backoff":{backoff}}}"#)),
    ] {
        server.put(&put).await;
        let path = format!("/jobs/{id}");
        let shown = server.get(&path).await;
        shown.ok(200);
        let changed = server.call(Method::PATCH, &path, shown.text.clone()).await;
        changed.ok(200);
        assert_eq!(changed.text, shown.text, "the same job, sent back, has changed it");
        assert_eq!(server.get(&path).await.text, shown.text);
    }
    // If one field differs, the request changes that field.
    let mut shown = server.get("/jobs/list").await.ok(200);
    shown["ttr"] = json!("2m");
    let changed = server.call(Method::PATCH, "/jobs/list", shown.to_string()).await.ok(200);
    shown["ttr"] = json!(120);
    assert_eq!(changed, shown);
    for (field, value) in [
        ("id", json!("other")),
        ("topic", json!("other")),
        ("state", json!("delayed")),
        ("attempt", json!(3)),
        ("created_at", json!("2026-01-01T00:00:00Z")),
        ("reserved_until", json!("2026-01-01T00:00:00Z")),
        ("died_at", json!("2026-01-01T00:00:00Z")),
        ("error", json!("none")),
    ] {
        let change = json!({"ttr": 30, field: value}).to_string();
        let problem = server.call(Method::PATCH, "/jobs/list", change).await;
        assert_eq!(problem.problem(422, "invalid_field")["field"], field);
    }
    assert_eq!(server.get("/jobs/list").await.ok(200)["ttr"], 120);
    server.pop("t/pop?count=9").await;
    let held = server.get("/jobs/list").await;
    server.call(Method::PATCH, "/jobs/list", held.text).await.problem(409, "job_reserved");
}

pub async fn null_removes_a_backoff_and_nothing_else(server: Server) {
    server.put(r#"{"topic":"t","id":"a","backoff":["1h"]}"#).await;
    let none = server.call(Method::PATCH, "/jobs/a", r#"{"backoff":null}"#).await.ok(200);
    assert_eq!((&none["backoff"], &none["max_attempts"]), (&Value::Null, &2.into()));
    let popped = server.pop("t/pop").await;
    let body = json!({"reservation": reservation_of(&popped[0])}).to_string();
    assert_eq!(server.post("/jobs/a/release", body).await.ok(200)["state"], "ready");
}

pub async fn a_new_backoff_sets_max_attempts_too(server: Server) {
    server.put(r#"{"topic":"t","id":"a","backoff":["1h","2h"]}"#).await;
    let longer = r#"{"backoff":["1h","2h","3h","4h"]}"#;
    let shown = server.call(Method::PATCH, "/jobs/a", longer).await.ok(200);
    assert_eq!(shown["max_attempts"], 5);
    server.put(r#"{"topic":"t","id":"b","backoff":["1h","2h"],"max_attempts":7}"#).await;
    let shown = server.call(Method::PATCH, "/jobs/b", longer).await.ok(200);
    assert_eq!(shown["max_attempts"], 7);
}

pub async fn a_topic_can_be_sent_back_as_a_get_showed_it(server: Server) {
    let defaults = r#"{"ttr":"2m","backoff":["1s","10s"]}"#;
    server.call(Method::PUT, "/topics/t", defaults).await.ok(200);
    server.put(r#"{"topic":"t"}"#).await;
    let shown = server.get("/topics/t").await.ok(200);
    let alone = shown["defaults"].to_string();
    for text in [shown.to_string(), alone] {
        let answer = server.call(Method::PUT, "/topics/t", text).await.ok(200);
        assert_eq!(answer["defaults"], shown["defaults"]);
    }
    assert_eq!(server.get("/topics/t").await.ok(200)["defaults"], shown["defaults"]);
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
        let problem = server.call(Method::PUT, "/topics/t", text).await;
        assert_eq!(problem.problem(422, "invalid_field")["field"], field);
    }
    assert_eq!(server.get("/topics/t").await.ok(200)["defaults"], shown["defaults"]);
    server.call(Method::PUT, "/topics/t", "{}").await.ok(200);
    assert_eq!(server.get("/topics/t").await.ok(200)["defaults"]["ttr"], Value::Null);
}

pub async fn a_problem_names_the_full_path_of_a_field(server: Server) {
    let missing = server.post("/jobs", r#"{"id":"x"}"#).await.problem(422, "invalid_field");
    assert_eq!(
        (&missing["field"], &missing["detail"]),
        (&"topic".into(), &"`topic` is missing".into())
    );
    let array = server.post("/jobs", "[]").await.problem(422, "invalid_field");
    assert_eq!(array["field"], Value::Null, "the problem names a field of a job: {array}");
    for (backoff, field) in [
        (json!({"initial": "1s"}), "backoff.max"),
        (json!({"max": "1s"}), "backoff.initial"),
        (json!({"initial": "1s", "max": "1M"}), "backoff.max"),
        (json!({"initial": "1s", "max": 9, "faktor": 2}), "backoff.faktor"),
        (json!({"initial": "1s", "max": 9, "jitter": 2}), "backoff.jitter"),
        (json!(["1s", "2x"]), "backoff[1]"),
    ] {
        let job = json!({"topic": "t", "backoff": backoff});
        let problem = server.post("/jobs", job.to_string()).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{problem}");
        let batch = json!({"jobs": [{"topic": "t"}, job]}).to_string();
        let results = server.post("/batch/jobs", batch).await.ok(200);
        assert_eq!(results["results"][1]["field"], format!("jobs[1].{field}"), "{results}");
    }
    for path in ["/topics/t/pause", "/topics/t/resume", "/topics/t/kick"] {
        let problem = server.post(path, r#"{"reason":"x"}"#).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], "reason");
        let detail = problem["detail"].as_str().expect("text");
        let says = if path.ends_with("pause") { "`for`" } else { "takes no body" };
        assert!(detail.contains(says) && !detail.contains("`id`"), "{problem}");
        server.post(path, "{}").await.ok(200);
    }
}
