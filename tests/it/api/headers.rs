//! Headers, which a producer gives to the consumers of its job.

use crate::api::prelude::*;

pub async fn headers_reach_every_consumer_and_change_by_patch(server: Server) {
    let headers = json!({"X-Tenant": "7 of 9;\t100%", "a": ""});
    let put = |id: &str| json!({"topic": "t", "id": id, "headers": headers});
    server.put(&put("one").to_string()).await;
    let batch = json!({"jobs": [put("two"), {"topic": "t", "id": "none", "headers": null}]});
    server.post("/batch/jobs", batch.to_string()).await.ok(200);

    for attempt in 1..=2 {
        let jobs = server.pop("t/pop?count=10").await;
        assert_eq!(jobs.len(), 3, "attempt {attempt}");
        for job in jobs {
            let id = job["id"].as_str().expect("an id");
            let expected = if id == "none" { None } else { Some(&headers) };
            assert_eq!(job.get("headers"), expected, "attempt {attempt}, {id}");
            server.post(&format!("/jobs/{id}/release"), r#"{"delay":0}"#).await.ok(200);
        }
    }

    let patch = async |body: String| server.call(Method::PATCH, "/jobs/one", body).await;
    // A client may send the whole answer of a GET back.
    let shown = server.get("/jobs/one").await.ok(200);
    assert_eq!(shown["headers"], headers);
    assert_eq!(patch(shown.to_string()).await.ok(200)["headers"], headers);
    let other = json!({"b": "2"});
    let changed = patch(json!({ "headers": other }).to_string()).await.ok(200);
    assert_eq!(changed["headers"], other, "the new headers have not replaced the old ones");
    assert_eq!(patch(json!({"ttr": 90}).to_string()).await.ok(200)["headers"], other);
    assert_eq!(
        server.pop("t/pop?count=10").await.iter().filter(|job| job["headers"] == other).count(),
        1
    );
    server.post("/jobs/one/release", r#"{"delay":0}"#).await.ok(200);
    assert!(patch(r#"{"headers":null}"#.to_owned()).await.ok(200).get("headers").is_none());
    assert!(server.get("/jobs/one").await.ok(200).get("headers").is_none());
}

pub async fn bad_headers_are_refused_by_field(server: Server) {
    server.put(r#"{"topic":"t","id":"kept","headers":{"a":"1"}}"#).await;
    let many: serde_json::Map<_, _> = (0..33).map(|n| (n.to_string(), json!(""))).collect();
    for headers in [
        json!({"Host": "x"}),
        json!({"webhook-id": "x"}),
        json!({"a b": "x"}),
        json!({"": "x"}),
        json!({"a": "1", "A": "2"}),
        json!({"a": "ü"}),
        json!({"a": "x\r\ny: z"}),
        json!(many),
        json!({"a": "x".repeat(8192)}),
        json!({"a": 1}),
        json!({"a": null}),
        json!(["a"]),
        json!("a=b"),
    ] {
        let put = json!({"topic": "t", "id": "bad", "headers": headers});
        let refused = server.post("/jobs", put.to_string()).await.problem(422, "invalid_field");
        let field = refused["field"].as_str().expect("a field");
        assert!(field == "headers" || field == "headers.a", "{field}");
        let change = json!({"headers": headers}).to_string();
        server.call(Method::PATCH, "/jobs/kept", change).await.problem(422, "invalid_field");
        let batch = json!({"jobs": [put]}).to_string();
        let results = server.post("/batch/jobs", batch).await.ok(200);
        let field = results["results"][0]["field"].as_str().expect("a field");
        assert!(field.starts_with("jobs[0].headers"), "{field}");
    }
    server.get("/jobs/bad").await.problem(404, "job_not_found");
    assert_eq!(server.get("/jobs/kept").await.ok(200)["headers"], json!({"a": "1"}));
    let as_default = r#"{"headers":{"a":"1"}}"#;
    server.call(Method::PUT, "/topics/t", as_default).await.problem(422, "invalid_field");
}
