//! The last answer of a connection that ends without a request to answer.

use axum::{body::Body, response::Response};

use super::finalize::{REQUEST_ID, fresh_id, write};
use crate::{
    http::{
        problem::{Code, Problem},
        wire::json,
    },
    store::Applied,
};

/// Why it ends.
pub enum Farewell {
    /// What came is no request.
    Unreadable {
        /// The status that tells it best, if that is known.
        status: Option<u16>,
    },
    /// It does not begin with TLS, and has to.
    NoTls,
    /// The head of a request did not come in time.
    TooSlow,
    /// The server stops.
    Stopping {
        /// There is a request, and its handler has not answered.
        handled: bool,
    },
}

impl Farewell {
    /// The whole answer, from its first line on.
    pub fn text(self) -> Vec<u8> {
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

    /// The same as the answer to a request, for HTTP/2.
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
            Self::Unreadable { .. } => Problem::new(
                Code::InvalidRequest,
                "this is not a request of HTTP/1.1 (without TLS)",
            ),
            Self::NoTls => {
                Problem::new(Code::InvalidRequest, "this server speaks TLS: ask by https://")
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
