//! The usual life of a job: put, pop, finish.

use crate::api::prelude::*;

pub async fn a_job_is_put_popped_and_finished(server: Server) {
    let put = server.post("/jobs", r#"{"topic":"orders","id":"o-1","body":{"n":1}}"#).await;
    assert_eq!(put.headers["location"], "/jobs/o-1");
    let put = put.ok(201);
    assert_shows(&put, json!({"id": "o-1", "topic": "orders", "state": "ready"}));

    let job = server.pop_one("orders").await;
    let expected = json!({
        "id": "o-1", "topic": "orders", "body": {"n": 1}, "attempt": 1, "max_attempts": 20,
        "ttr": 60, "due_at": put["due_at"],
    });
    assert_shows(&job, expected);
    for time in ["due_at", "created_at", "reserved_until"] {
        let text = job[time].as_str().expect("a time");
        assert!(
            text.ends_with('Z') && text.len() == 24,
            "the time must be RFC 3339 with milliseconds: {text}"
        );
    }
    let finished = server.act("o-1", "finish", held(&job)).await;
    assert_eq!((finished.status.as_u16(), finished.text.as_str()), (204, ""));
    server.act("o-1", "finish", held(&job)).await.problem(404, "job_not_found");
    assert!(server.pop("orders/pop").await.is_empty());
}

pub async fn a_job_arrives_when_it_is_due_and_not_before(server: Server) {
    let delays = [0, 1, 7, 30, 120, 250, 400];
    let mut put_at = BTreeMap::new();
    for (number, delay) in delays.iter().cycle().take(140).enumerate() {
        let id = format!("job:{number}");
        put_at.insert(id.clone(), (Instant::now(), Duration::from_millis(*delay)));
        let seconds = Duration::from_millis(*delay).as_secs_f64();
        server.put(format!(r#"{{"topic":"t","id":"{id}","delay":{seconds}}}"#)).await;
    }
    let mut left = put_at.len();
    while left > 0 {
        let jobs = server.pop("t/pop?wait=10s&count=10").await;
        assert!(!jobs.is_empty(), "{left} jobs were never delivered");
        for job in jobs {
            let (at, delay) = put_at[id_of(&job)];
            assert!(at.elapsed() >= delay, "early: {job}");
            left -= 1;
        }
    }
}

pub async fn generated_ids_increase(server: Server) {
    let mut last = 0;
    for _ in 0..3 {
        let put = server.put(r#"{"topic":"t"}"#).await;
        let id: i64 = put["id"].as_str().expect("text").parse().expect("a decimal number");
        assert!(id > last);
        last = id;
    }
}

pub async fn a_body_comes_back_byte_for_byte(server: Server) {
    let bodies = [
        r#"{ "b" : 1,  "a":[ 1.0, 1e2 ,-0 ] }"#,
        r#""é \u00e9 \ud83d\ude00 \" ""#,
        "12345678901234567890.123456789",
        "[\n\t]",
        "null",
        "\"😀\"",
    ];
    for body in bodies {
        server.put(format!(r#"{{"topic":"t","body":{body}}}"#)).await;
        let popped = server.get("/topics/t/pop?wait=10s").await;
        let around = format!(r#""body":{body},"attempt""#);
        assert!(popped.text.contains(&around), "{body} in {}", popped.text);
        let id = popped.jobs()[0]["id"].as_str().expect("an id").to_owned();
        let read = server.get(&format!("/jobs/{id}")).await;
        assert!(read.text.contains(&around), "{body} in {}", read.text);
    }
    server.put(r#"{"topic":"t"}"#).await;
    assert!(server.pop_one("t").await["body"].is_null());
}

pub async fn every_route_is_served_under_v1_too(server: Server) {
    let put = server.post("/v1/jobs", r#"{"topic":"t","id":"a"}"#).await;
    put.ok(201);
    assert_eq!(put.headers["location"], "/v1/jobs/a");
    assert_eq!(server.get("/v1/jobs/a").await.ok(200)["state"], "ready");
    // A pop may also be a POST, with its options in the query or in the body.
    let jobs = server.post("/v1/topics/t/pop", r#"{"wait":"1s","count":2}"#).await.jobs();
    assert_eq!(jobs.len(), 1);
    server.post("/v1/jobs/a/finish", "").await.is_done();
    server.get("/v1/readyz").await.ok(200);
}

pub async fn a_job_can_be_read_and_deleted_in_any_state(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","ttr":"90s","backoff":["1s","2m"]}"#).await;
    let read = server.job("a").await;
    assert_shows(&read, json!({"state": "delayed", "attempt": 0}));
    assert_shows(&read, json!({"ttr": 90, "max_attempts": 3}));
    assert_eq!(read["backoff"], json!([1, 120]));
    let deleted = server.delete("/jobs/a").await.ok(200);
    assert_eq!(deleted, json!({"id": "a", "state": "delayed"}));
    server.delete("/jobs/a").await.problem(404, "job_not_found");

    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let excluded = server.delete("/jobs/a?state=reserved,dead").await;
    assert_shows(&excluded.problem(409, "wrong_state"), json!({"state": "ready", "applied": "no"}));
    server.pop_one("t").await;
    let cancelled = server.delete("/jobs/a?state=delayed,ready").await;
    assert_eq!(cancelled.problem(409, "wrong_state")["state"], "reserved");
    assert_eq!(server.job("a").await["state"], "reserved");
    assert_eq!(server.delete("/jobs/a").await.ok(200)["state"], "reserved");
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn a_living_id_is_refused_kept_or_replaced(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","body":1}"#).await;
    let again = |how: &str| format!(r#"{{"topic":"t","id":"a","body":2,"on_conflict":"{how}"}}"#);
    server.post("/jobs", r#"{"topic":"t","id":"a"}"#).await.problem(409, "job_exists");
    server.post("/jobs", again("reject")).await.problem(409, "job_exists");
    assert_eq!(server.post("/jobs", again("keep")).await.ok(200)["state"], "delayed");
    let elsewhere = r#"{"topic":"other","id":"a","on_conflict":"keep"}"#;
    let problem = server.post("/jobs", elsewhere).await.problem(409, "job_exists");
    assert_shows(&problem, json!({"state": "delayed", "topic": "t"}));
    let batch = format!(r#"{{"jobs":[{elsewhere},{}]}}"#, again("reject"));
    let results = server.post("/batch/jobs", batch).await.ok(200);
    for result in results["results"].as_array().expect("results") {
        assert_shows(result, json!({"code": "job_exists", "id": "a"}));
        assert_shows(result, json!({"state": "delayed", "topic": "t"}));
    }
    assert_eq!(server.job("a").await["body"], 1);
    assert_eq!(server.post("/jobs", again("replace")).await.ok(200)["state"], "ready");
    assert_eq!(server.pop_one("t").await["body"], 2);
    server.post("/jobs", again("replace")).await.problem(409, "job_reserved");
    server.post("/jobs/a/bury", "").await.ok(200);
    let problem = server.post("/jobs", again("reject")).await.problem(409, "job_exists");
    assert_eq!(problem["state"], "dead");
    let detail = problem["detail"].as_str().expect("text");
    assert!(!detail.contains("living") && detail.contains("until it is kicked"), "{detail}");
}
