//! `GET /metrics`, in one of the text formats of Prometheus.

use std::{fmt, time::Duration};

use axum::{
    extract::State,
    http::{
        HeaderMap,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::IntoResponse,
};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use tokio::time::timeout;

use super::health;
use crate::{
    http::{app::App, client::identity::Identity, problem::Problem},
    metrics::{
        self, gauges, process,
        text::{OPEN_METRICS, PROMETHEUS, accepts_open_metrics, prometheus},
    },
};

/// Time after which a store that does not answer is reported as unavailable.
const CHECK_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes all metrics, even if the store does not answer.
pub async fn metrics(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    identity.may_everywhere()?;
    let ((), state) = tokio::join!(app.queue.refresh_survey(), store_state(&app));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, &app, state);
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(match accepts_open_metrics(accept) {
        true => ([(CONTENT_TYPE, OPEN_METRICS)], text),
        false => ([(CONTENT_TYPE, PROMETHEUS)], prometheus(&text)),
    })
}

fn write(text: &mut String, app: &App, state: &'static str) -> fmt::Result {
    encode_registry(text, &app.metrics)?;
    let mut now = metrics::registry();
    metrics::collect(&mut now, "store_state", move |encoder| {
        let states = ["ok", "degraded", "unavailable"];
        let series = states.map(|each| ([("state", each)], u64::from(each == state)));
        let help = "1 for the state that readyz reports, 0 for the others.";
        gauges(encoder, "store_state", help, series)
    });
    encode_registry(text, &now)?;
    encode_registry(text, &process::registry())?;
    encode_eof(text)
}

/// Returns the status that `/readyz` reports.
async fn store_state(app: &App) -> &'static str {
    let status = timeout(CHECK_TIMEOUT, health::status(app)).await;
    status.map_or("unavailable", |status| status.status)
}
