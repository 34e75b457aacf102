//! A handler that parses a job and answers, and does nothing in between: what this HTTP stack can
//! do at most. `delay-queue bench --against noop` measures it.

use axum::{Json, Router, body::Bytes, http::StatusCode, routing::post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::Millis;

#[derive(Deserialize)]
struct Job<'a> {
    topic: String,
    id: Option<String>,
    delay: Option<Millis>,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[derive(Serialize)]
struct Answer {
    id: String,
    topic: String,
    state: &'static str,
    due_at: &'static str,
}

/// `POST /jobs`, without a queue and without the layers that every answer of the server goes through.
pub fn noop() -> Router {
    Router::new().route("/jobs", post(answer))
}

async fn answer(content: Bytes) -> Result<(StatusCode, Json<Answer>), StatusCode> {
    let Ok(Job { topic, id, delay, body }) = serde_json::from_slice(&content) else {
        return Err(StatusCode::BAD_REQUEST);
    };
    std::hint::black_box((delay, body));
    let id = id.unwrap_or_else(|| "3693000000000000000".to_owned());
    let due_at = "2026-01-01T00:00:00.000Z";
    Ok((StatusCode::CREATED, Json(Answer { id, topic, state: "ready", due_at })))
}
