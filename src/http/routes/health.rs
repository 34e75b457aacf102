//! The routes for operators.

use std::sync::atomic::Ordering;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    http::{app::App, problem::Problem, schema::types, wire::json::Json},
    queue::Readiness,
};

/// All is well.
#[derive(Serialize, JsonSchema)]
pub struct Fine {
    /// Always `ok`.
    status: &'static str,
}

const FINE: Json<Fine> = Json(Fine { status: "ok" });

/// The process lives.
pub async fn healthz() -> Json<Fine> {
    FINE
}

/// The server can be used.
#[derive(Serialize, JsonSchema)]
pub struct Ready {
    /// `ok` or `degraded`: only a part of the queue works.
    #[schemars(with = "types::Health")]
    status: &'static str,
    /// Why it is degraded: `buckets_unavailable`, `buckets_replaced`, `store_full`, `writes_refused`,
    /// `clock_jumped`, `jobs_unreadable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<&'static str>,
    /// Buckets that are out of reach, if some are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_unavailable: Vec<usize>,
    /// Buckets that have lost their jobs, if some have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_replaced: Vec<usize>,
}

/// What `readyz` says, as one word and its reasons.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StoreStatus")]
pub struct Status {
    /// `ok`, `degraded` or `unavailable`.
    #[schemars(with = "types::Health")]
    pub status: &'static str,
    /// Why it is not `ok`.
    reasons: Vec<String>,
    /// Buckets that are out of reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_unavailable: Vec<usize>,
    /// Buckets that have lost their jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_replaced: Vec<usize>,
}

/// The same as `readyz`, for an answer that is given in any case.
pub async fn status(app: &App) -> Status {
    match readyz(State(app.clone())).await {
        Ok(Json(Ready { status, reasons, buckets_unavailable, buckets_replaced })) => {
            let reasons = reasons.into_iter().map(str::to_owned).collect();
            Status { status, reasons, buckets_unavailable, buckets_replaced }
        }
        Err(problem) => Status {
            status: "unavailable",
            reasons: vec![problem.detail],
            buckets_unavailable: Vec::new(),
            buckets_replaced: Vec::new(),
        },
    }
}

/// The store is reachable and fit, timers move, and the server is not about to end. What limits it
/// without making it useless is a reason for "degraded", which is ready.
pub async fn readyz(State(app): State<App>) -> Result<Json<Ready>, Problem> {
    if app.draining.load(Ordering::SeqCst) {
        return Err(Problem::shutting_down());
    }
    let checked = app.queue.check().await.map_err(|error| {
        let reason = error.to_string();
        Problem { detail: reason, ..error.into() }
    });
    let Readiness { away, replaced, store_full, writes_refused, clock_jumped, jobs_unreadable } =
        checked?;
    let all = [
        ("buckets_unavailable", !away.is_empty()),
        ("buckets_replaced", !replaced.is_empty()),
        ("store_full", store_full),
        ("writes_refused", writes_refused),
        ("clock_jumped", clock_jumped),
        ("jobs_unreadable", jobs_unreadable),
    ];
    let reasons: Vec<_> = all.into_iter().filter(|(_, holds)| *holds).map(|(why, _)| why).collect();
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    Ok(Json(Ready { status, reasons, buckets_unavailable: away, buckets_replaced: replaced }))
}
