//! The last step of every answer.
//!
//! Each answer gets an `X-Request-Id`: the one that the caller sent, if it is safe to log, else a
//! new one. Each problem becomes JSON here, whichever layer it comes from.
//!
//! The request-id layers of tower-http would accept any id of the caller, even one that breaks a
//! log or a header. They add no id to the JSON of problems, nor to the answers to requests that
//! hyper rejects (`connection_error`). The `TraceLayer` would log a status without the problem's
//! cause.

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

/// Returns a problem if the body of a request has an encoding that is not supported.
pub fn unsupported(request: &Request) -> Option<Problem> {
    let headers = request.headers();
    if headers.get(CONTENT_ENCODING).is_some_and(|name| name != "identity") {
        let detail = "Content-Encoding is not supported: send the body without compression";
        return Some(Problem::new(Code::UnsupportedEncoding, detail));
    }
    let mut transfers = headers.get_all(TRANSFER_ENCODING).iter();
    if transfers.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return None;
    }
    let detail = "the only Transfer-Encoding that is supported is chunked";
    Some(Problem::new(Code::UnsupportedTransferEncoding, detail))
}

/// Writes a problem into the response to the request with this id.
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

/// Returns whether the answer ends the connection, because the server does not read the rest of the
/// request.
fn ends_connection(problem: &Problem) -> bool {
    let unread = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT];
    unread.contains(&problem.code.status()) || problem.code == Code::Overloaded
}

/// Returns the request id that the caller sent, if it is safe to log, else a new one.
pub fn request_id(request: &Request) -> HeaderValue {
    let is_safe = |id: &&HeaderValue| {
        let byte = |b: &u8| b.is_ascii_alphanumeric() || b"._:-".contains(b);
        (1..=128).contains(&id.len()) && id.as_bytes().iter().all(byte)
    };
    request.headers().get(REQUEST_ID).filter(is_safe).cloned().unwrap_or_else(fresh_id)
}

pub fn fresh_id() -> HeaderValue {
    let random: u64 = rand::random();
    let digit = |n: usize| b"0123456789abcdef"[(random >> (4 * n)) as usize % 16];
    HeaderValue::from_bytes(&std::array::from_fn::<u8, 16, _>(digit)).expect("hexadecimal digits")
}
