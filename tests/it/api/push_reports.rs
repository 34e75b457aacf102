//! Answers to batches that may contain results of their jobs.

use crate::{
    api::{
        deliveries::{push, until_gone, until_state},
        prelude::*,
    },
    support::endpoint::Endpoint,
};

/// Returns the answer to a batch of the job whose id names the form of the answer.
fn answer(id: &str) -> (&'static str, Vec<u8>) {
    let accepted = format!("{{\"results\":[{{\"id\":\"{id}\",\"status\":200}}]}}");
    let json = "application/json";
    match id {
        "accepted" => (json, accepted.into_bytes()),
        "ok" => ("text/plain", b"OK".to_vec()),
        "cut" => (json, accepted.as_bytes()[..accepted.len() - 1].to_vec()),
        "list" => ("text/plain", format!("\u{feff}[{accepted}]").into_bytes()),
        _ => (json, b"{\"ok\":true}".to_vec()),
    }
}

async fn endpoint() -> Endpoint {
    Endpoint::start(|request| {
        let jobs = request.json();
        let (kind, body) = answer(jobs["jobs"][0]["id"].as_str().unwrap_or_default());
        ([("content-type", kind)], body)
    })
    .await
}

pub async fn a_report_that_cannot_be_read_finishes_no_job(server: Server) {
    let endpoint = endpoint().await;
    let fields = json!({ "batch": { "max": 1 }, "backoff": ["1h"] });
    push(&server, "reports", &endpoint, fields).await;
    let unusable = ["cut", "list", "without-results"];
    for id in ["accepted", "ok"].into_iter().chain(unusable) {
        server.put(format!(r#"{{"topic":"reports","id":"{id}"}}"#)).await;
    }
    until_gone(&server, "accepted").await;
    until_gone(&server, "ok").await;
    for id in unusable {
        let job = until_state(&server, id, "delayed").await;
        assert_eq!(job["attempt"], 1, "{job}");
        assert!(job["error"].as_str().is_some_and(|error| error.contains("report")), "{job}");
    }
    server.stop().await;
}

pub async fn a_test_warns_of_an_answer_that_accepts_nothing(server: Server) {
    // The job of a test has the id `test`, for which the endpoint answers without results.
    let endpoint = endpoint().await;
    let response = async |fields| {
        push(&server, "tested", &endpoint, fields).await;
        server.post("/topics/tested/push/test", "").await.ok(200)["response"].clone()
    };
    let warned = response(json!({ "batch": {} })).await;
    assert_eq!(warned["status"], 200, "{warned}");
    assert!(warned["warning"].as_str().is_some_and(|text| text.contains("results")), "{warned}");
    let alone = response(json!({})).await;
    assert_eq!((&alone["status"], alone.get("warning")), (&json!(200), None), "{alone}");
    server.stop().await;
}
