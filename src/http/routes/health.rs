//! Routes for monitors.

use std::sync::atomic::Ordering;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    http::{app::App, problem::Problem, schema::types, wire::json::Json},
    queue::Readiness,
};

/// Answer of a running process.
#[derive(Serialize, JsonSchema)]
pub struct Fine {
    /// Always `ok`.
    status: &'static str,
}

const FINE: Json<Fine> = Json(Fine { status: "ok" });

pub async fn healthz() -> Json<Fine> {
    FINE
}

/// Answer of a server that is ready.
#[derive(Serialize, JsonSchema)]
pub struct Ready {
    /// `ok`, or `degraded` while only a part of the queue works.
    #[schemars(with = "types::Health")]
    status: &'static str,
    /// Why the server is degraded: `buckets_unavailable`, `buckets_replaced`, `store_full`,
    /// `writes_refused`, `store_unsafe`, `clock_jumped`, `jobs_unreadable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<&'static str>,
    /// Numbers of unavailable buckets. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_unavailable: Vec<usize>,
    /// Numbers of buckets that have lost their jobs. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_replaced: Vec<usize>,
}

/// The readiness of server and store, as `/readyz` reports it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StoreStatus")]
pub struct Status {
    /// `ok`, `degraded` or `unavailable`.
    #[schemars(with = "types::Health")]
    pub status: &'static str,
    /// Why the status is not `ok`.
    reasons: Vec<String>,
    /// Numbers of unavailable buckets. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_unavailable: Vec<usize>,
    /// Numbers of buckets that have lost their jobs. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets_replaced: Vec<usize>,
}

/// Returns the readiness as [`readyz`] does, but succeeds even if the server is not ready.
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

/// Succeeds while the store is reachable and usable, timers advance, and the server is not shutting
/// down. A server that is usable with limitations is "degraded", which counts as ready.
pub async fn readyz(State(app): State<App>) -> Result<Json<Ready>, Problem> {
    if app.draining.load(Ordering::SeqCst) {
        return Err(Problem::shutting_down());
    }
    let checked = app.queue.check().await.map_err(|error| {
        let reason = error.to_string();
        Problem { detail: reason, ..error.into() }
    });
    let Readiness {
        unavailable,
        replaced,
        store_full,
        writes_refused,
        store_unsafe,
        clock_jumped,
        jobs_unreadable,
    } = checked?;
    let all = [
        ("buckets_unavailable", !unavailable.is_empty()),
        ("buckets_replaced", !replaced.is_empty()),
        ("store_full", store_full),
        ("writes_refused", writes_refused),
        ("store_unsafe", store_unsafe),
        ("clock_jumped", clock_jumped),
        ("jobs_unreadable", jobs_unreadable),
    ];
    let reasons: Vec<_> = all.into_iter().filter(|(_, holds)| *holds).map(|(why, _)| why).collect();
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    Ok(Json(Ready {
        status,
        reasons,
        buckets_unavailable: unavailable,
        buckets_replaced: replaced,
    }))
}
