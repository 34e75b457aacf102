//! The outermost layer: what holds for every answer.
//!
//! Each gets an `X-Request-Id` (the caller's own, if it sent a sane one), and each problem becomes
//! its JSON here, whichever layer it comes from. An error is logged here and nowhere before: this is
//! where it becomes an answer, and where the id, the status and the cause are known together.
//!
//! The request-id layers of tower-http would not do: they keep any id of the caller, also one that
//! breaks a log or a header, and they know neither the id within the problem's JSON nor the answers to
//! requests that hyper rejects (`farewell`). Its `TraceLayer` logs a status, not the problem's cause.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{
            CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING,
            WWW_AUTHENTICATE,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use tracing::Instrument;

use super::{log::Asked, requests::Requests};
use crate::{
    http::{
        client::peer::Peer,
        extract::input::traceparent,
        limits::per_minute::PerMinute,
        problem::{Code, Problem},
        wire::json,
    },
    traces,
};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub async fn finalize(
    State((requests, refused)): State<(Requests, Arc<PerMinute>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = requests.begin(&request);
    let id = request_id(&request);
    let asked = Asked::new(&mut request, id.clone());
    let scheme = request.extensions().get::<Peer>().map(Peer::scheme);
    let span = traces::request(&request, &id, scheme, || traceparent(request.headers()));
    let encoded = request.headers().get(CONTENT_ENCODING).is_some_and(|name| name != "identity");
    let mut transfers = request.headers().get_all(TRANSFER_ENCODING).iter();
    let mut response = if encoded {
        let detail = "Content-Encoding is not supported: send the body as it is";
        Problem::new(Code::UnsupportedEncoding, detail).into_response()
    } else if !transfers.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        let detail = "the only Transfer-Encoding that is supported is chunked";
        Problem::new(Code::UnsupportedTransferEncoding, detail).into_response()
    } else {
        next.run(request).instrument(span.clone()).await
    };
    traces::answered(&span, response.status());
    let problem = response.extensions_mut().remove::<Problem>();
    asked.answered(&response, problem.as_ref(), &refused);
    if let Some(problem) = problem {
        write(&mut response, problem, &id);
    }
    response.headers_mut().insert(REQUEST_ID, id);
    begun.answered(response.status());
    response
}

/// Writes a problem down as the answer to the request of this id.
pub fn write(response: &mut Response, problem: Problem, id: &HeaderValue) {
    if let Some(seconds) = problem.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    let challenge =
        problem.challenge.map(|challenge| HeaderValue::from_str(&challenge.to_string()));
    if let Some(Ok(challenge)) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    if ends_connection(&problem) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let request_id = id.to_str().unwrap_or_default();
    *response.status_mut() = problem.code.status();
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    let written = problem.of_request(request_id);
    *response.body_mut() = Body::from(json::line(&written).unwrap_or_default());
}

/// Whether the rest of the request is left unread, and may be much.
fn ends_connection(problem: &Problem) -> bool {
    let unread = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT];
    unread.contains(&problem.code.status()) || problem.code == Code::Overloaded
}

fn request_id(request: &Request) -> HeaderValue {
    let sane = |id: &&HeaderValue| {
        let byte = |b: &u8| b.is_ascii_alphanumeric() || b"._:-".contains(b);
        (1..=128).contains(&id.len()) && id.as_bytes().iter().all(byte)
    };
    request.headers().get(REQUEST_ID).filter(sane).cloned().unwrap_or_else(fresh_id)
}

/// For a request that has no id of its own.
pub fn fresh_id() -> HeaderValue {
    let fresh = format!("{:016x}", rand::random::<u64>());
    HeaderValue::from_str(&fresh).expect("hexadecimal digits")
}
