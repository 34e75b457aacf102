//! Tracing spans of requests, and of the store calls that they share.
//!
//! Spans give context to log lines at debug level. A build with the feature `otlp` can also send
//! them to an OpenTelemetry collector. If neither is enabled, no span is created.

#[cfg(feature = "otlp")]
mod export;

use tracing::Span;

#[cfg(feature = "otlp")]
pub use export::Export;

use crate::job::TraceParent;

/// Target of these spans and of the request log.
pub const TARGET: &str = "delay_queue::access";

/// Creates the span of a store call that several requests share: a child of the first request's
/// span, linked to the others.
pub fn batch(jobs: usize, requests: impl Iterator<Item = Span>) -> Span {
    let mut requests = requests.filter(|span| !span.is_disabled());
    let Some(first) = requests.next() else { return Span::none() };
    let span = tracing::debug_span!(target: TARGET, parent: &first, "batch", jobs);
    requests.for_each(|other| {
        span.follows_from(&other);
    });
    span
}

/// Creates the span of a store call. Outside of requests only promotes have a span: the other calls
/// repeat periodically and would flood the collector.
pub fn call(name: &'static str, jobs: Option<usize>) -> Span {
    if current().is_none() && name != "promote" {
        return Span::none();
    }
    let full_name = format_args!("store {name}");
    tracing::debug_span!(target: TARGET, "store", otel.name = %full_name, otel.kind = "client", jobs)
}

/// Returns the current span, or a disabled span if spans are off.
pub fn current() -> Span {
    match tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        true => Span::current(),
        false => Span::none(),
    }
}

/// Links the current span, in which a consumer gets a job, to the span of the job's put.
pub fn follows(put: TraceParent) {
    let span = current();
    if !span.is_disabled() {
        links(&span, put);
    }
}

#[cfg(feature = "otlp")]
pub use export::continues;
#[cfg(feature = "otlp")]
use export::links;

/// Does nothing without the feature `otlp`.
#[cfg(not(feature = "otlp"))]
pub fn continues(_: &Span, _: TraceParent) {}

#[cfg(not(feature = "otlp"))]
fn links(_: &Span, _: TraceParent) {}
