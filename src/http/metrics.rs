//! `GET /metrics`: what a monitor should watch, in the text format of Prometheus.

use axum::{extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use prometheus_client::encoding::text::encode;

use super::{App, identity::Identity, problem::Problem};
use crate::access::Scope;

/// The format of `prometheus_client`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Each part counts where things happen; here it is only written down.
pub async fn metrics(
    State(app): State<App>,
    identity: Identity,
) -> Result<impl IntoResponse, Problem> {
    identity.may_everywhere(Scope::Read)?;
    let mut text = String::new();
    // A String takes everything.
    let _ = encode(&mut text, &app.metrics);
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text))
}
