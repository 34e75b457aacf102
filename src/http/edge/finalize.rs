//! What holds for every answer.
//!
//! Each gets an `X-Request-Id` (the caller's own, if it sent a sane one), and each problem becomes
//! its JSON here, whichever layer it comes from. An error is logged here and nowhere before: this is
//! where it becomes an answer, and where the id, the status and the cause are known together.
//!
//! The request-id layers of tower-http would not do: they keep any id of the caller, also one that
//! breaks a log or a header, and they know neither the id within the problem's JSON nor the answers to
//! requests that hyper rejects (`farewell`). Its `TraceLayer` logs a status, not the problem's cause.

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{
            CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING,
            WWW_AUTHENTICATE,
        },
    },
    response::Response,
};

use crate::http::{
    problem::{Code, Problem},
    wire::json,
};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Returns why the encoding of a request's body is refused.
pub fn unsupported(request: &Request) -> Option<Problem> {
    let headers = request.headers();
    if headers.get(CONTENT_ENCODING).is_some_and(|name| name != "identity") {
        let detail = "Content-Encoding is not supported: send the body as it is";
        return Some(Problem::new(Code::UnsupportedEncoding, detail));
    }
    let mut transfers = headers.get_all(TRANSFER_ENCODING).iter();
    if transfers.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return None;
    }
    let detail = "the only Transfer-Encoding that is supported is chunked";
    Some(Problem::new(Code::UnsupportedTransferEncoding, detail))
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

/// Returns the id of a request: its own if that breaks no log, else a new one.
pub fn request_id(request: &Request) -> HeaderValue {
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
