//! Bodies that are valid JSON, but that some parsers refuse. Such a body must not make the answer
//! to a pop unreadable for its consumer.

use crate::api::prelude::*;

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

pub async fn an_unreadable_body_is_refused_alone(server: Server) {
    server.put(r#"{"topic":"t","id":"there","delay":"1h","body":1}"#).await;
    let deep = (nested(129), nested(100_000));
    for (body, place) in [
        (deep.0.as_str(), "/0/0/0"),
        (deep.1.as_str(), "/0/0/0"),
        (r#"{"a":["x","\ud800"]}"#, "/a/1"),
        (r#"{"a":"\udc00\ud800"}"#, "/a"),
        (r#"[1,{"b":1e400}]"#, "/1/b"),
        ("-1E999", "byte 0"),
    ] {
        let job = |id: &str| format!(r#"{{"topic":"t","id":"{id}","body":{body}}}"#);
        let shown = &body[..body.len().min(40)];
        let problem = server.post("/jobs", job("a")).await.problem(422, "invalid_field");
        assert_shows(&problem, json!({"field": "body", "applied": "no"}));
        assert!(problem["detail"].as_str().expect("text").contains(place), "{shown}: {problem}");

        let change = format!(r#"{{"body":{body}}}"#);
        server.patch("there", change).await.problem(422, "invalid_field");

        let batch = format!(r#"{{"jobs":[{{"topic":"t","id":"x"}},{},{}]}}"#, job("a"), job("b"));
        let results = server.post("/batch/jobs", batch).await.ok(200);
        let results = results["results"].as_array().expect("results");
        assert_eq!(results[0]["status"], 201, "{shown}");
        for number in [1, 2] {
            assert_eq!(results[number]["code"], "invalid_field", "{shown}");
            assert_eq!(results[number]["field"], format!("jobs[{number}].body"));
            assert!(results[number]["detail"].as_str().expect("text").contains(place));
        }
        assert_eq!(server.pop("t/pop?count=9").await.len(), 1, "{shown}");
        server.delete("/jobs/x").await.ok(200);
    }
    assert_eq!(server.job("there").await["body"], 1);
    let raw = b"{\"topic\":\"t\",\"id\":\"a\",\"body\":\"\xff\"}".to_vec();
    let batch = [b"{\"jobs\":[".as_slice(), &raw, b"]}"].concat();
    for (path, body) in [("/jobs", raw), ("/batch/jobs", batch)] {
        let request = server.request(Method::POST, path).body(body);
        Server::send(request).await.problem(400, "invalid_json");
    }
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn a_body_may_be_nested_128_deep_however_it_is_put(server: Server) {
    let body = nested(128);
    let job = |id: &str| format!(r#"{{"topic":"t","id":"{id}","body":{body}}}"#);
    server.post("/jobs", job("a")).await.ok(201);
    let batch = format!(r#"{{"jobs":[{},{}]}}"#, job("b"), job("c"));
    for result in
        server.post("/batch/jobs", batch).await.ok(200)["results"].as_array().expect("two")
    {
        assert_eq!(result["status"], 201, "{result}");
    }
    let change = format!(r#"{{"body":{body}}}"#);
    let changed = server.patch("a", change).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let popped = server.get("/topics/t/pop?count=9").await;
    assert_eq!(popped.text.matches(&body).count(), 3, "{}", popped.text);
}

pub async fn odd_text_is_refused_by_field_or_kept(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.pop("t/pop").await;
    let half = r#"{"error":"\ud800"}"#;
    let problem = server.post("/jobs/a/release", half).await.problem(422, "invalid_field");
    assert_eq!(problem["field"], "error");
    let batch = r#"{"jobs":[{"id":"a","error":"\udc00"}]}"#;
    assert_eq!(server.post("/batch/release", batch).await.results()[0]["field"], "jobs[0].error");
    assert_eq!(server.job("a").await["state"], "reserved");
    let error = "\u{0}\n\r 😀 \u{ffff} \" \\ 1 2\n3";
    server.post("/jobs/a/bury", json!({"error": error})).await.ok(200);
    assert_eq!(server.job("a").await["error"], error);
    server.post("/jobs/a/finish?reservation=%ff%00", "").await.problem(409, "reservation_lost");
}
