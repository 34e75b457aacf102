//! The tracing span of a request.

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode},
};
use tracing::{Span, field::Empty};

use crate::{
    access::masked,
    http::{extract::input::traceparent, routing::Found},
    traces,
};

/// Creates the span of a request. If the request names the trace of its caller, the span joins it.
pub fn request(request: &Request, id: &HeaderValue, found: &Found<'_>, scheme: &str) -> Span {
    let method = request.method();
    let span = tracing::debug_span!(
        target: traces::TARGET,
        parent: None,
        "request",
        otel.name = format!("{method} {}", found.template().unwrap_or_default()).trim_end(),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %method,
        http.route = found.template(),
        url.scheme = scheme,
        url.path = &*masked(request.uri().path()),
        http.response.status_code = Empty,
        request_id = id.to_str().unwrap_or_default(),
    );
    if !span.is_disabled()
        && let Some(caller) = traceparent(request.headers())
    {
        traces::continues(&span, caller);
    }
    span
}

/// Records the status of the answer in the span of its request.
pub fn record_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}
