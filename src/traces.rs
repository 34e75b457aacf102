//! Tracing spans of requests, and of the store calls that they share.
//!
//! They give context to log lines at debug level and, in a build with the feature `otlp`, go to an
//! OpenTelemetry collector. If neither is enabled, no span is created.

#[cfg(feature = "otlp")]
mod export;

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderValue, StatusCode},
};
use tracing::{Span, field::Empty};

#[cfg(feature = "otlp")]
pub use export::Export;

use crate::{access::masked, job::TraceParent};

/// Target of these spans and of the request log.
pub const TARGET: &str = "delay_queue::access";

/// Makes the span of a request, in the trace of its caller if the request names one.
pub fn request(
    request: &Request,
    id: &HeaderValue,
    scheme: Option<&str>,
    caller: impl FnOnce() -> Option<TraceParent>,
) -> Span {
    let method = request.method();
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let span = tracing::debug_span!(
        target: TARGET,
        parent: None,
        "request",
        otel.name = format!("{method} {}", route.unwrap_or_default()).trim_end(),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %method,
        http.route = route,
        url.scheme = scheme,
        url.path = &*masked(request.uri().path()),
        http.response.status_code = Empty,
        request_id = id.to_str().unwrap_or_default(),
    );
    if !span.is_disabled()
        && let Some(caller) = caller()
    {
        continues(&span, caller);
    }
    span
}

/// Records the status of the answer in the span of its request.
pub fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// Makes the span of a shared call: a child of the first span, linked to the others.
pub fn batch(jobs: usize, of: impl Iterator<Item = Span>) -> Span {
    let mut of = of.filter(|span| !span.is_disabled());
    let Some(first) = of.next() else { return Span::none() };
    let span = tracing::debug_span!(target: TARGET, parent: &first, "batch", jobs);
    of.for_each(|other| {
        span.follows_from(&other);
    });
    span
}

/// Makes the span of a store call. Calls outside of requests have none, except promotes, since
/// servers repeat the others periodically.
pub fn call(name: &'static str, jobs: Option<usize>) -> Span {
    if current().is_none() && name != "promote" {
        return Span::none();
    }
    let full_name = format_args!("store {name}");
    tracing::debug_span!(target: TARGET, "store", otel.name = %full_name, otel.kind = "client", jobs)
}

/// Returns the current span; a disabled one if spans are disabled.
pub fn current() -> Span {
    match tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        true => Span::current(),
        false => Span::none(),
    }
}

/// Links the current span, in which a consumer gets a job, to the put of that job.
pub fn follows(put: TraceParent) {
    let span = current();
    if !span.is_disabled() {
        links(&span, put);
    }
}

#[cfg(feature = "otlp")]
use export::{continues, links};

#[cfg(not(feature = "otlp"))]
fn continues(_: &Span, _: TraceParent) {}

#[cfg(not(feature = "otlp"))]
fn links(_: &Span, _: TraceParent) {}
