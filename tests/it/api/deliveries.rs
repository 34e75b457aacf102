//! Pushed jobs arrive at their endpoint, and its answers decide what happens to them.

use crate::{
    api::prelude::*,
    support::endpoint::{Endpoint, status},
};

pub async fn push(server: &Server, topic: &str, endpoint: &Endpoint, fields: Value) {
    let push = with(&json!({ "url": endpoint.url(), "concurrency": 4 }), fields);
    let answer = server.call(Method::PUT, &format!("/topics/{topic}/push"), push).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

pub async fn until_state(server: &Server, id: &str, state: &str) -> Value {
    let job = async || server.get(&format!("/jobs/{id}")).await.json();
    until(job, |job| job["state"] == state).await
}

pub async fn until_gone(server: &Server, id: &str) {
    server.until_status(&format!("/jobs/{id}"), 404).await;
}

pub async fn a_pushed_job_is_posted_with_its_headers_and_finished(server: Server) {
    let endpoint =
        Endpoint::start(|_| ([("content-type", "application/json")], "{\"ok\": 1}")).await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let fields = json!({
        "secrets": [secret],
        "headers": { "X-Shop": "7", "Authorization": "Bearer key" },
    });
    push(&server, "orders", &endpoint, fields).await;
    let job = server
        .put(
            r#"{"topic":"orders","id":"o:1","body":{"n": 1},"headers":{"X-Own":"yes"},
                "finished_retention":"1h","delay":"100ms",
                "traceparent":"00-10000000000000000000000000000000-1000000000000000-01"}"#,
        )
        .await;
    let request = endpoint.next().await;
    assert_eq!(request.body, "{\"n\": 1}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("delay-queue-id", "o:1"),
        ("delay-queue-topic", "orders"),
        ("delay-queue-attempt", "1"),
        ("x-shop", "7"),
        ("x-own", "yes"),
        ("authorization", "Bearer key"),
        ("traceparent", "00-10000000000000000000000000000000-1000000000000000-01"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}: {request:?}");
    }
    assert_eq!(request.header("delay-queue-due-at"), job["due_at"].as_str());
    assert!(request.header("webhook-id").is_some_and(|id| id.starts_with("msg_")));
    assert!(request.header("webhook-signature").is_some_and(|text| text.starts_with("v1,")));
    let job = until_state(&server, "o:1", "finished").await;
    // The answer of an address that is not public is no result.
    assert_eq!((job.get("result"), &job["attempt"]), (None, &json!(1)), "{job}");
    // Without a retention the job is gone, and its result with it.
    server.put(r#"{"topic":"orders","id":"o:2"}"#).await;
    assert_eq!(endpoint.next().await.body, "null");
    until_gone(&server, "o:2").await;
    server.stop().await;
}

pub async fn the_answer_decides_what_happens_to_the_job(server: Server) {
    let endpoint = Endpoint::start(|request| {
        let code = request.json().as_u64().expect("a status");
        let after = if code == 503 { "7200" } else { "soon" };
        let coding = if code == 502 { "gzip" } else { "identity" };
        (
            status(code.try_into().expect("a status")),
            [("retry-after", after), ("content-encoding", coding)],
            "no stock",
        )
    })
    .await;
    push(&server, "answers", &endpoint, json!({ "backoff": ["1h"] })).await;
    let put = async |id: &str, body: u16, fields: &str| {
        server.put(format!(r#"{{"topic":"answers","id":"{id}","body":{body}{fields}}}"#)).await;
        endpoint.next().await
    };
    put("gone", 410, "").await;
    let job = until_state(&server, "gone", "dead").await;
    // The endpoint has an address that is not public, so its text is not repeated.
    assert_eq!(job["error"], "the endpoint answered 410 Gone", "{job}");
    put("busy", 503, "").await;
    let job = until_state(&server, "busy", "delayed").await;
    assert_eq!((&job["attempt"], wait(&job)), (&json!(0), 7_200), "{job}");
    put("limited", 429, "").await;
    let job = until_state(&server, "limited", "delayed").await;
    assert_eq!((&job["attempt"], wait(&job)), (&json!(0), 5), "{job}");
    // The status counts, even if the body is compressed.
    put("gateway", 502, "").await;
    assert_eq!(until_state(&server, "gateway", "delayed").await["attempt"], 0);
    for (id, code) in [("failed", 500), ("moved", 301), ("missing", 404)] {
        put(id, code, "").await;
        let job = until_state(&server, id, "delayed").await;
        assert_eq!((&job["attempt"], wait(&job)), (&json!(1), 3_600), "{job}");
    }
    put("own", 500, r#","backoff":["2h"]"#).await;
    assert_eq!(wait(&until_state(&server, "own", "delayed").await), 7_200);
    put("last", 500, r#","max_attempts":1"#).await;
    until_state(&server, "last", "dead").await;
    let shown = server.get("/topics/answers/push").await.ok(200);
    let failures = shown["last_failures"].as_array().expect("a list");
    assert_eq!((failures.len(), &failures[0]["id"]), (9, &json!("last")), "{shown}");
    assert_eq!(failures[0]["status"], 500);
    server.stop().await;
}

fn wait(job: &Value) -> i64 {
    let ended = job["history"].as_array().and_then(|all| all.last()).expect("a history");
    let wait = time(job, "due_at").as_millisecond() - time(ended, "ended_at").as_millisecond();
    (wait + 500) / 1_000
}

pub async fn a_batch_has_a_verdict_for_each_job(server: Server) {
    let endpoint = Endpoint::start(|request| {
        let result = |job: &Value| match job["body"].as_u64() {
            Some(0) => None,
            status => Some(json!({ "id": job["id"], "status": status, "error": "private" })),
        };
        let jobs = request.json();
        let results: Vec<Value> =
            jobs["jobs"].as_array().expect("jobs").iter().filter_map(result).collect();
        json!({ "results": results }).to_string()
    })
    .await;
    server.post("/topics/batches/pause", "").await.ok(200);
    let batch = json!({ "batch": { "max": 4, "linger": "10s" }, "backoff": ["1h"] });
    push(&server, "batches", &endpoint, batch).await;
    for (id, body) in [("a", 200), ("b", 410), ("c", 500), ("d", 0)] {
        let headers = r#"{"X-Own":"yes"}"#;
        server
            .put(format!(r#"{{"topic":"batches","id":"{id}","body":{body},"headers":{headers}}}"#))
            .await;
    }
    server.post("/topics/batches/resume", "").await.ok(200);
    let request = endpoint.next().await;
    assert_eq!(request.header("delay-queue-topic"), Some("batches"));
    assert_eq!(request.header("delay-queue-id"), None);
    let mut jobs = request.json()["jobs"].as_array().expect("jobs").clone();
    jobs.sort_by_key(|job| job["id"].to_string());
    assert_eq!(jobs.len(), 4, "{jobs:?}");
    assert_shows(&jobs[0], json!({"id": "a", "attempt": 1}));
    assert_shows(&jobs[1], json!({"body": 410, "headers": { "X-Own": "yes" }}));
    until_gone(&server, "a").await;
    until_state(&server, "b", "dead").await;
    for id in ["c", "d"] {
        assert_eq!(wait(&until_state(&server, id, "delayed").await), 3_600);
    }
    server.stop().await;
}

pub async fn a_paused_push_or_topic_sends_nothing(server: Server) {
    let endpoint = Endpoint::start(|_| status(204)).await;
    push(&server, "paused", &endpoint, json!({})).await;
    let state = async || server.get("/topics/paused/push").await.ok(200)["state"].clone();
    assert_eq!(state().await, "running");
    server.post("/topics/paused/push/pause", "").await.ok(200);
    assert_eq!(state().await, "paused");
    server.put(r#"{"topic":"paused","id":"held"}"#).await;
    // A push of another topic shows that the server has had the time to send the job.
    push(&server, "other", &endpoint, json!({})).await;
    server.put(r#"{"topic":"other","id":"witness"}"#).await;
    assert_eq!(endpoint.next().await.header("delay-queue-id"), Some("witness"));
    assert_eq!(until_state(&server, "held", "ready").await["attempt"], 0);
    server.post("/topics/paused/pause", "").await.ok(200);
    server.post("/topics/paused/push/resume", "").await.ok(200);
    server.put(r#"{"topic":"other","id":"witness-2"}"#).await;
    assert_eq!(endpoint.next().await.header("delay-queue-id"), Some("witness-2"));
    server.post("/topics/paused/resume", "").await.ok(200);
    assert_eq!(endpoint.next().await.header("delay-queue-id"), Some("held"));
    until_gone(&server, "held").await;
    server.stop().await;
}

pub async fn an_address_that_is_not_allowed_is_never_reached(server: Server) {
    // The tests allow 127.0.0.0/8 alone.
    let endpoint = Endpoint::at("[::1]:0", |_| status(204)).await;
    let put = |url: String| {
        let push = json!({ "url": url }).to_string();
        server.call(Method::PUT, "/topics/inward/push", push)
    };
    assert_eq!(put(endpoint.url()).await.problem(422, "invalid_field")["field"], "url");
    // A name is checked at each attempt: `localhost` has both addresses on many machines, and one
    // that is not allowed is enough to refuse it. Where it has only 127.0.0.1, nothing listens.
    let port = endpoint.address.port();
    put(format!("http://localhost:{port}/")).await.ok(201);
    server.put(r#"{"topic":"inward","id":"i"}"#).await;
    let job = until_state(&server, "i", "delayed").await;
    assert_eq!(job["attempt"], 0, "{job}");
    assert!(job["error"].is_string(), "{job}");
    assert!(endpoint.arrived().await.is_empty());
    server.stop().await;
}

pub async fn jobs_wait_while_the_endpoint_is_down(server: Server) {
    // No other test takes this port while the endpoint is down.
    let address = format!("127.0.0.1:{}", free_port());
    let endpoint = Endpoint::at(&address, |_| status(204)).await;
    push(&server, "down", &endpoint, json!({ "concurrency": 16 })).await;
    drop(endpoint);
    for number in 0..100 {
        server.put(format!(r#"{{"topic":"down","id":"d{number}"}}"#)).await;
    }
    let shown = async || server.get("/topics/down/push").await.ok(200);
    until(&shown, |shown| shown["state"] == "open").await;
    assert_eq!(server.get("/overview").await.ok(200)["pushes"][0]["state"], "open");
    // While the target is open, at most one job a second is popped, so most of them stay ready.
    let topic = server.topic("down").await;
    assert!(topic["ready"].as_u64().expect("a number") > 50, "{topic}");
    let endpoint = Endpoint::at(&address, |_| status(204)).await;
    let mut first = endpoint.next().await;
    for _ in 0..50 {
        assert_eq!(first.header("delay-queue-attempt"), Some("1"), "no attempt was spent");
        first = endpoint.next().await;
    }
    until(&shown, |shown| shown["state"] == "running").await;
    server.stop().await;
}

#[tokio::test]
async fn a_stopping_server_gives_pushed_jobs_back_uncounted() {
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    // This endpoint never answers.
    let hangs = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.expect("a connection"));
            let _ = begun.send(());
        }
    });
    let redis = Redis::start();
    let grace = |all: &mut Settings| all.server.shutdown_grace = Millis::new(100);
    let server = Server::at_with(&redis, grace).await;
    let push = json!({ "url": format!("http://{address}/"), "timeout": "5m" }).to_string();
    server.call(Method::PUT, "/topics/hanging/push", push).await.ok(201);
    server.put(r#"{"topic":"hanging","id":"h"}"#).await;
    begins.recv().await.expect("a connection");
    until_state(&server, "h", "reserved").await;
    // The request under way continues without its push.
    server.delete("/topics/hanging/push").await.is_done();
    server.stop().await;
    let other = Server::at(&redis).await;
    assert_shows(&other.job("h").await, json!({"state": "ready", "attempt": 0}));
    hangs.abort();
    other.stop().await;
}
