//! The handler, which does what the body of the job says.

use std::{fmt, sync::Arc, time::Duration};

use delay_queue_client::{BoxError, Bury, Job, Snooze};
use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::Error};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{gates::Gates, reply::print};

/// Value that a handler returns.
pub enum Returned {
    Json(Value),
    Unencodable,
}

impl Serialize for Returned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Returned::Json(value) => value.serialize(serializer),
            Returned::Unencodable => Err(S::Error::custom("this value has no JSON form")),
        }
    }
}

/// Attempt of a job, whose events are printed.
struct Attempt {
    id: String,
    attempt: u32,
    has_events: bool,
    is_ended: bool,
}

impl Attempt {
    fn started<T>(job: &Job<T>, has_events: bool) -> Self {
        let attempt =
            Attempt { id: job.id.clone(), attempt: job.attempt, has_events, is_ended: false };
        let mut event = json!({
            "event": "started", "id": job.id, "topic": job.topic, "attempt": job.attempt,
            "due_at": Timestamp::try_from(job.due_at).map_or(Value::Null, |due_at| json!(format!("{due_at:.3}"))),
            "at": now(),
        });
        if let Some(traceparent) = &job.traceparent {
            event["traceparent"] = json!(traceparent);
        }
        if !job.headers.is_empty() {
            event["headers"] = json!(job.headers);
        }
        attempt.print(&event);
        attempt
    }

    fn ended(mut self) {
        self.is_ended = true;
        self.print(&json!({"event": "ended", "id": self.id, "attempt": self.attempt}));
    }

    fn print(&self, event: &Value) {
        if self.has_events {
            print(event);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_ended {
            self.print(&json!({"event": "cancelled", "id": self.id, "attempt": self.attempt}));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the suite compares it with the due time")]
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Error with a text of the suite.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

pub async fn handle(
    job: Job<Value>,
    gates: Arc<Gates>,
    has_events: bool,
) -> Result<Returned, BoxError> {
    let attempt = Attempt::started(&job, has_events);
    let body = job.body;
    if let Some(after) = body["after"].as_f64() {
        sleep(Duration::from_secs_f64(after)).await;
    }
    if let Some(gate) = body["gate"].as_str() {
        gates.pass(gate).await;
    }
    attempt.ended();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    match body["then"].as_str() {
        Some("finish") => Ok(Returned::Json(body["value"].clone())),
        Some("raise") => Err(Raised(text("text")).into()),
        Some("bury") => Err(Bury::new(text("reason")).into()),
        Some("snooze") => {
            let delay = body["delay"].as_f64().unwrap_or_default();
            Err(Snooze::new(Duration::from_secs_f64(delay)).into())
        }
        Some("unencodable") => Ok(Returned::Unencodable),
        Some("throw") => std::panic::panic_any(body),
        _ => Ok(Returned::Json(Value::Null)),
    }
}

/// Body of a typed handler.
#[derive(serde::Deserialize)]
pub struct Order {
    #[serde(rename = "order")]
    _order: String,
    #[serde(rename = "amount")]
    _amount: i64,
}

pub async fn handle_order(job: Job<Order>) -> Result<(), BoxError> {
    Attempt::started(&job, true).ended();
    Ok(())
}

pub async fn handle_quietly(_: Job<Value>) -> Result<(), BoxError> {
    Ok(())
}
