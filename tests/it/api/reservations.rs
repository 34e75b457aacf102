//! What consumers do with the jobs they hold.

use std::time::{Duration, Instant};

use reqwest::Method;

use crate::api::server::{Server, pass, token};

pub async fn a_job_that_is_not_finished_in_time_comes_back_and_the_first_consumer_is_fenced(
    server: Server,
) {
    server.put(r#"{"topic":"t","id":"a","ttr":1}"#).await;
    let popped_at = Instant::now();
    let first = server.pop_one("t").await;
    let second = server.pop_one("t").await;
    let after = popped_at.elapsed();
    assert!(after >= Duration::from_secs(1), "came back within its TTR: {after:?}");
    assert!(after < Duration::from_secs(3), "came back late: {after:?}");
    assert_eq!((&first["attempt"], &second["attempt"]), (&1.into(), &2.into()));
    let by = |job| format!(r#"{{"reservation":"{}"}}"#, token(job));
    for action in ["finish", "release", "touch", "bury"] {
        let answer = server.post(&format!("/jobs/a/{action}"), by(&first)).await;
        let problem = answer.problem(409, "reservation_lost");
        assert!(problem["detail"].as_str().expect("text").contains("reservation"));
    }
    assert_eq!(server.post("/jobs/a/finish", by(&second)).await.status, 204);
}

pub async fn spent_attempts_end_in_dead(server: Server) {
    server.put(r#"{"topic":"t","id":"a","max_attempts":2}"#).await;
    for state in ["ready", "dead"] {
        let job = server.pop_one("t").await;
        let body = format!(r#"{{"reservation":"{}","error":"boom"}}"#, token(&job));
        assert_eq!(server.post("/jobs/a/release", body).await.ok(200)["state"], state);
    }
    let dead = server.get("/jobs/a").await.ok(200);
    assert_eq!((&dead["state"], &dead["error"]), (&"dead".into(), &"boom".into()));
    assert!(dead["died_at"].is_string());
    assert_eq!(server.get("/topics/t").await.ok(200)["since_start"]["dead"], 1);
    assert!(server.pop("t/pop").await.is_empty());
}

pub async fn a_release_gives_the_job_back_by_its_delay_or_its_backoff(server: Server) {
    server.put(r#"{"topic":"t","id":"a","backoff":["50ms"]}"#).await;
    let job = server.pop_one("t").await;
    let body = format!(r#"{{"reservation":"{}"}}"#, token(&job));
    let released = server.post("/jobs/a/release", body).await.ok(200);
    assert_eq!(released["state"], "delayed");
    assert!(released["due_at"].as_str() > job["due_at"].as_str());
    let job = server.pop_one("t").await;
    assert_eq!(job["due_at"], released["due_at"]);
    // The list has one value: this was the last attempt of two.
    let body = format!(r#"{{"reservation":"{}","delay":"1h"}}"#, token(&job));
    assert_eq!(server.post("/jobs/a/release", body).await.ok(200)["state"], "dead");
}

pub async fn a_touch_holds_the_job_longer(server: Server) {
    server.put(r#"{"topic":"t","id":"a","ttr":1}"#).await;
    let job = server.pop_one("t").await;
    let body = format!(r#"{{"reservation":"{}","ttr":"1h"}}"#, token(&job));
    let touched = server.post("/jobs/a/touch", body).await.ok(200);
    assert!(touched["reserved_until"].as_str() > job["reserved_until"].as_str());
    pass(Duration::from_millis(1200)).await;
    assert_eq!(server.get("/jobs/a").await.ok(200)["state"], "reserved");
}

pub async fn going_by_id_alone_works_as_in_the_original_design(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    for action in ["finish", "release", "touch", "bury"] {
        server.post(&format!("/jobs/a/{action}"), "").await.problem(409, "never_popped");
    }
    server.pop_one("t").await;
    server.post("/jobs/a/touch", "").await.ok(200);
    server.post("/jobs/a/release", "").await.ok(200);
    let idle = server.post("/jobs/a/release", "").await.problem(409, "reservation_lost");
    let detail = idle["detail"].as_str().expect("text");
    assert!(detail.contains("kick") && detail.contains("PATCH"), "{detail}");
    server.pop_one("t").await;
    assert_eq!(server.post("/jobs/a/finish", "{}").await.status, 204);
}

pub async fn a_reservation_may_stand_in_the_query(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let token = token(&server.pop_one("t").await);
    let twice = format!(r#"{{"reservation":"{token}"}}"#);
    let path = format!("/jobs/a/finish?reservation={token}");
    server.post(&path, twice).await.problem(422, "invalid_field");
    server.post("/jobs/a/finish?reservation=1", "").await.problem(409, "reservation_lost");
    assert_eq!(server.post(&path, "").await.status, 204);
}

pub async fn a_job_is_buried_kicked_and_rescheduled(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.pop_one("t").await;
    server.post("/jobs/a/kick", "").await.problem(409, "job_reserved");
    let patch = async |body: &'static str| server.call(Method::PATCH, "/jobs/a", body).await;
    patch(r#"{"delay":1}"#).await.problem(409, "job_reserved");
    assert_eq!(server.post("/jobs/a/bury", r#"{"error":"e"}"#).await.ok(200)["state"], "dead");
    patch(r#"{"delay":1}"#).await.problem(409, "job_dead");
    assert_eq!(server.post("/jobs/a/kick", "").await.ok(200)["state"], "ready");
    patch("{}").await.problem(422, "invalid_field");
    let both = r#"{"delay":1,"due_at":"2030-01-01T00:00:00Z"}"#;
    assert_eq!(patch(both).await.problem(422, "invalid_field")["field"], "due_at");
    assert_eq!(server.get("/jobs/a").await.ok(200)["state"], "ready");
    let job = patch(r#"{"delay":"1h","body":[2]}"#).await.ok(200);
    assert_eq!((&job["state"], &job["body"][0]), (&"delayed".into(), &2.into()));
    assert!(patch(r#"{"delay":"50ms","body":null}"#).await.ok(200)["body"].is_null());
    let job = server.pop_one("t").await;
    assert_eq!((&job["attempt"], &job["body"]), (&1.into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn an_operator_can_demand_reservations() {
    let server = Server::on_file_with(|settings| settings.queue.require_reservation = true).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let job = server.pop_one("t").await;
    for action in ["finish", "release", "touch", "bury"] {
        let answer = server.post(&format!("/jobs/a/{action}"), "").await;
        answer.problem(422, "reservation_required");
    }
    let batch = server.post("/batch/finish", r#"{"jobs":[{"id":"a"}]}"#).await.ok(200);
    assert_eq!(batch["results"][0]["code"], "reservation_required");
    let path = format!("/jobs/a/finish?reservation={}", token(&job));
    assert_eq!(server.post(&path, "").await.status, 204);
}
