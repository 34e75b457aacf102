//! The last answer on a connection that the server closes before a handler has answered.

use axum::{body::Body, response::Response};

use super::finalize::{REQUEST_ID, fresh_id, write};
use crate::{
    http::{
        problem::{Code, Problem},
        wire::json,
    },
    store::Applied,
};

/// Reason why the server closes a connection before a handler has answered.
pub enum ConnectionError {
    /// The client sent bytes that are not a complete HTTP request.
    Unreadable {
        /// The status that hyper would have answered, if known.
        status: Option<u16>,
    },
    /// The client spoke plain HTTP, and the listener requires TLS.
    NoTls,
    /// The head of a request did not arrive within `limits.header_timeout`.
    TooSlow,
    /// The server is shutting down.
    Stopping {
        /// Whether a handler has started on the request, and so may have changed jobs.
        handled: bool,
    },
}

impl ConnectionError {
    /// Returns the whole HTTP/1.1 response as bytes, including its status line.
    pub fn http1_bytes(self) -> Vec<u8> {
        let problem = self.problem();
        let status = problem.code.status();
        let retry = problem.retry_after().map(|seconds| format!("retry-after: {seconds}\r\n"));
        let id = format!("{:016x}", rand::random::<u64>());
        let body = json::line(&problem.of_request(&id)).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\n\
             content-length: {}\r\nx-request-id: {id}\r\n{}connection: close\r\n\r\n",
            body.len(),
            retry.unwrap_or_default(),
        );
        [head.into_bytes(), body].concat()
    }

    /// Returns the answer as a response, for HTTP/2.
    pub fn response(self) -> Response {
        let (id, mut response) = (fresh_id(), Response::new(Body::empty()));
        write(&mut response, self.problem(), &id);
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }

    fn problem(self) -> Problem {
        match self {
            Self::Unreadable { status: Some(414 | 431) } => Problem::new(
                Code::HeadersTooLarge,
                "the head of a request is larger than limits.header_bytes, or has more than 100 fields",
            ),
            Self::Unreadable { .. } => {
                Problem::new(Code::InvalidRequest, "not a valid HTTP/1.1 request")
            }
            Self::NoTls => {
                Problem::new(Code::InvalidRequest, "this port requires TLS; use https://")
            }
            Self::TooSlow => Problem::new(
                Code::RequestTimeout,
                "the head of the request did not arrive in time (limits.header_timeout)",
            ),
            Self::Stopping { handled: false } => Problem::shutting_down(),
            Self::Stopping { handled: true } => {
                Problem { applied: Applied::Unknown, ..Problem::shutting_down() }
            }
        }
    }
}
