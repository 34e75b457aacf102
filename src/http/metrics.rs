//! `GET /metrics`: what a monitor should watch, in the text format of Prometheus.

use axum::{extract::State, http::header::CONTENT_TYPE, response::IntoResponse};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use super::{App, identity::Identity, problem::Problem};
use crate::access::Scope;

/// The format of `prometheus_client`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything is counted where it happens; here it is only written down.
pub async fn metrics(
    State(app): State<App>,
    identity: Identity,
) -> Result<impl IntoResponse, Problem> {
    identity.may_everywhere(Scope::Read)?;
    let condition = app.queue.condition();
    let mut registry = Registry::with_prefix("delay_queue");
    let mut counter = |name: &str, help: &str, value: u64| {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    let help =
        "How often a bucket was found without the jobs it had: the store was emptied or replaced";
    counter("data_losses", help, condition.data_losses);
    let help = "How often the store's clock jumped by more than three seconds";
    counter("clock_jumps", help, condition.clock_jumps.count);
    let mut gauge = |name: &str, help: &str, value: usize| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    let help = "1 if the store has no room: puts are refused, finishing and deleting go on";
    gauge("store_full", help, condition.is_full.into());
    gauge("buckets", "Buckets of the store", app.queue.buckets());
    let away = app.queue.away().len();
    gauge(
        "buckets_unavailable",
        "Buckets that are out of reach: they refuse, the others go on",
        away,
    );
    let used = app.memory.used();
    gauge("memory_bytes", "What requests and answers hold of limits.memory_bytes", used);
    let mut text = String::new();
    // A String takes everything.
    let _ = encode(&mut text, &registry);
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text))
}
