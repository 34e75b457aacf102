//! A handler that only parses a job and answers. Its rate is the upper limit of this HTTP stack.

use axum::{
    Router,
    body::Bytes,
    http::{HeaderName, StatusCode, header::CONTENT_TYPE},
    routing::{delete, post},
};
use delay_queue::job::Millis;
use delay_queue_bench::Failure;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::serve::serve;

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

/// Serves until the process is killed, on the same kind of runtime as `delay-queue`.
pub fn run(listen: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        Ok(serve(listener, routes()).await?)
    })
}

/// Returns three routes: `POST /jobs`, without a queue and without the server's middleware, the
/// purge that a bench calls at its end, and `POST /accept`, which accepts any body.
fn routes() -> Router {
    Router::new()
        .route("/jobs", post(answer))
        .route("/accept", post(|_: Bytes| async { StatusCode::NO_CONTENT }))
        .route("/topics/{topic}/jobs", delete(|| async { r#"{"purged":0}"# }))
}

type Created = (StatusCode, [(HeaderName, &'static str); 1], Vec<u8>);

async fn answer(content: Bytes) -> Result<Created, StatusCode> {
    let Ok(Job { topic, id, delay, body }) = serde_json::from_slice(&content) else {
        return Err(StatusCode::BAD_REQUEST);
    };
    std::hint::black_box((delay, body));
    let id = id.unwrap_or_else(|| "3693000000000000000".to_owned());
    let due_at = "2026-01-01T00:00:00.000Z";
    let text = serde_json::to_vec(&Answer { id, topic, state: "ready", due_at });
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok((StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], text))
}
