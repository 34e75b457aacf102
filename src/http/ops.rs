//! The routes for whoever runs the server.

use std::sync::atomic::Ordering;

use axum::{Json, extract::State};
use serde::Serialize;

use super::{App, problem::Problem};

#[derive(Serialize)]
pub(super) struct Fine {
    status: &'static str,
}

const FINE: Json<Fine> = Json(Fine { status: "ok" });

/// The process lives.
pub(super) async fn healthz() -> Json<Fine> {
    FINE
}

/// The store is reachable and fit, timers move, and the server is not about to end.
pub(super) async fn readyz(State(app): State<App>) -> Result<Json<Fine>, Problem> {
    if app.draining.load(Ordering::SeqCst) {
        return Err(Problem::shutting_down());
    }
    app.queue.check().await?;
    Ok(FINE)
}
