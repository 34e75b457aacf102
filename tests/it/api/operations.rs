//! Features for operators: health, request ids, and answers to wrong requests.

use crate::api::prelude::*;

pub async fn health_and_readiness_are_reported(server: Server) {
    assert_eq!(server.get("/healthz").await.ok(200)["status"], "ok");
    assert_eq!(server.get("/readyz").await.ok(200)["status"], "ok");
}

pub async fn every_answer_has_a_request_id(server: Server) {
    let with_id = |id: &str| {
        let request = server.request(Method::GET, "/jobs/nobody").header("x-request-id", id);
        Server::send(request)
    };
    let answer = with_id("my-own:1").await;
    assert_eq!(answer.headers["x-request-id"], "my-own:1");
    assert_eq!(answer.problem(404, "job_not_found")["request_id"], "my-own:1");
    for insane in ["a b", "\"x\"", &"a".repeat(129), ""] {
        let made = with_id(insane).await.headers["x-request-id"].clone();
        assert_ne!(made, insane);
        assert_eq!(made.len(), 16);
    }
    assert_eq!(server.get("/healthz").await.headers["x-request-id"].len(), 16);
}

pub async fn every_json_answer_ends_with_a_newline(server: Server) {
    server.put(r#"{"topic":"t","id":"a","body":{"x":1}}"#).await;
    let batch = r#"{"jobs":[{"id":"nobody"}]}"#;
    for answer in [
        server.post("/jobs", r#"{"topic":"t"}"#).await,
        server.post("/jobs", "{").await,
        server.post("/batch/finish", batch).await,
        server.get("/jobs/a").await,
        server.get("/jobs/nobody").await,
        server.get("/topics").await,
        server.get("/topics/t").await,
        server.get("/topics/t/jobs?state=ready").await,
        server.get("/topics/t/pop").await,
        server.get("/topics/none/pop").await,
        server.get("/healthz").await,
        server.get("/readyz").await,
        server.get("/no/such/route").await,
    ] {
        assert!(answer.text.ends_with("}\n"), "{answer:?}");
        assert!(!answer.text.ends_with("\n\n"), "{answer:?}");
        answer.json();
    }
}

pub async fn unknown_routes_and_wrong_methods_are_problems_too(server: Server) {
    server.get("/nothing/here").await.problem(404, "route_not_found");
    server.get("/v1/nothing").await.problem(404, "route_not_found");
    let problem = server.get("/v1/job/a").await.problem(404, "route_not_found");
    assert!(text(&problem).contains("did you mean /jobs/{id}?"), "{problem}");
    for (method, path, detail) in [
        (Method::PUT, "/jobs", "this route does not take PUT; it takes POST"),
        (Method::GET, "/jobs/a/finish", "this route does not take GET; it takes POST"),
        (Method::PUT, "/v1/jobs/a", "this route does not take PUT; it takes GET, PATCH, DELETE"),
        (Method::DELETE, "/v1/topics/t/pop", "this route does not take DELETE; it takes GET, POST"),
    ] {
        let answer = server.call(method, path, "").await;
        assert_eq!(text(&answer.problem(405, "method_not_allowed")), detail);
        assert!(answer.headers.contains_key("allow"), "{path}");
    }
}

fn text(problem: &Value) -> &str {
    problem["detail"].as_str().expect("text")
}

pub async fn a_head_request_pops_nothing(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let answer = server.call(Method::HEAD, "/topics/t/pop", "").await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.headers["allow"], "GET, POST");
    for path in ["/topics/t/pop", "/v1/topics/t/pop"] {
        let answer = server.delete(path).await;
        answer.problem(405, "method_not_allowed");
        assert_eq!(answer.headers["allow"], "GET, POST", "{path}");
    }
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}
