//! What the log has of requests: a line for each that failed, the audit (acts of operators, and what was
//! refused for lack of rights), and at debug one for each. Never bodies; they are the jobs'.

use std::{borrow::Cow, net::Ipv4Addr, sync::OnceLock, time::Instant};

use axum::{
    Extension,
    extract::Request,
    http::{HeaderValue, Method, Uri},
    response::{IntoResponseParts, Response, ResponseParts},
};

use super::requests::CLIENT_GONE;
use crate::{
    access::masked,
    http::{
        client::{identity::Identity, peer::Peer},
        limits::{
            limit_by::network,
            per_minute::{Count, PerMinute},
        },
        problem::Problem,
    },
};

/// The target of the audit: a line of JSON each, in every format of the log.
pub const AUDIT: &str = "delay_queue::audit";
/// So much of a path is logged: it may be as long as a head.
const PATH: usize = 256;

/// A request as the log names it. One that is dropped without an answer has lost its client.
pub struct Asked {
    method: Method,
    uri: Uri,
    id: HeaderValue,
    peer: Option<Peer>,
    /// Empty until the request is let in.
    caller: OnceLock<Identity>,
    /// What it acts on, for the audit.
    act: Act,
    at: Instant,
    is_answered: bool,
}

/// What an act on a whole topic has done, for the log.
#[derive(Clone)]
pub struct Did(pub String);

impl IntoResponseParts for Did {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        Extension(self).into_response_parts(parts)
    }
}

/// How many jobs of a batch the store failed, and the first failure, for the log.
#[derive(Clone)]
pub struct PartFailed {
    pub jobs: usize,
    pub first: Problem,
}

impl PartFailed {
    /// Counts a job if it is the server that failed it.
    pub fn add(all: &mut Option<Self>, problem: &Problem) {
        match all {
            _ if !problem.code.status().is_server_error() => {}
            Some(all) => all.jobs += 1,
            None => *all = Some(Self { jobs: 1, first: problem.clone() }),
        }
    }
}

impl IntoResponseParts for PartFailed {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        Extension(self).into_response_parts(parts)
    }
}

impl Asked {
    /// A request of this id, before it is let in.
    pub fn new(request: &Request, id: HeaderValue) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            id,
            peer: request.extensions().get().cloned(),
            caller: OnceLock::new(),
            act: Act::of(request.method(), request.uri().path()),
            at: Instant::now(),
            is_answered: false,
        }
    }

    /// Notes who the caller is. A request is let in once.
    pub fn admitted(&self, caller: Identity) {
        let _ = self.caller.set(caller);
    }

    /// Logs what has become of it. `refused` counts those that were refused and had no token.
    pub fn answered(mut self, response: &Response, problem: Option<&Problem>, refused: &PerMinute) {
        self.is_answered = true;
        let (method, path, request_id) = (&self.method, self.path(), self.request_id());
        let path = short(&path);
        let status = response.status().as_u16();
        let part = response.extensions().get::<PartFailed>();
        if let Some(Problem { code, cause, .. }) =
            problem.filter(|p| p.code.status().is_server_error())
        {
            let code = code.name();
            tracing::warn!(%method, path, status, code, cause, request_id, "a request failed");
        } else if let Some(PartFailed { jobs, first: Problem { code, cause, .. } }) = part {
            let code = code.name();
            tracing::warn!(
                %method, path, status, jobs, code, cause, request_id, "a part of a batch failed"
            );
        }
        let did = response.extensions().get::<Did>().map(|did| did.0.as_str());
        let result = did.or(problem.map(|problem| problem.code.name())).unwrap_or("done");
        if [401, 403].contains(&status) {
            self.audit_refusal(status, result, refused);
        } else if self.is_audited() {
            self.audit_act(status, result);
        }
        tracing::debug!(
            target: "delay_queue::access",
            %method, path, status, ms = self.at.elapsed().as_secs_f64() * 1_000.0,
            peer = self.peer(), request_id, "answered"
        );
    }

    fn is_audited(&self) -> bool {
        match self.act {
            Act::Operation => true,
            // Without tokens these are what every client does.
            Act::Managing => self.token().is_some(),
            Act::Other => false,
        }
    }

    fn audit_act(&self, status: u16, result: &str) {
        let (uri, token) = (self.uri.to_string(), self.token());
        let uri = masked(&uri);
        tracing::info!(
            target: AUDIT,
            method = %self.method, uri = short(&uri), status, result, token, peer = self.peer(),
            request_id = self.request_id(), "an operator's act"
        );
    }

    /// The log is on a disk too: callers without a token must not fill it.
    fn audit_refusal(&self, status: u16, result: &str, refused: &PerMinute) {
        let token = self.token();
        let address = self.peer.as_ref().and_then(Peer::address).map(|address| address.ip());
        let count = match token {
            Some(_) => Count::default(),
            None => {
                let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                refused.count(network(address), self.at)
            }
        };
        if count.is_too_many() && !count.is_first_too_many() {
            return;
        }
        let what = match count.is_first_too_many() {
            true => "a refused request; the next ones of its address in this minute are left out",
            false => "a refused request",
        };
        // What others send may have secrets in its query.
        let (path, left_out) = (self.path(), Some(count.left_out).filter(|&count| count > 0));
        tracing::info!(
            target: AUDIT,
            method = %self.method, uri = short(&path), status, result, token, peer = self.peer(),
            left_out, request_id = self.request_id(), "{what}"
        );
    }

    fn path(&self) -> Cow<'_, str> {
        masked(self.uri.path())
    }

    fn token(&self) -> Option<&str> {
        self.caller.get().and_then(Identity::name).map(|name| name.as_str())
    }

    fn request_id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    fn peer(&self) -> Option<impl tracing::Value> {
        self.peer.as_ref().and_then(Peer::address).map(tracing::field::display)
    }
}

impl Drop for Asked {
    /// An act is told, also if its client does not wait for the answer.
    fn drop(&mut self) {
        if !self.is_answered && self.is_audited() {
            self.audit_act(
                CLIENT_GONE,
                "the client went away before the answer; it may have been done",
            );
        }
    }
}

/// The beginning of a text that may be very long.
fn short(text: &str) -> &str {
    let end = (0..=PATH.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// What a request acts on, as far as the audit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// A topic as a whole, or tokens.
    Operation,
    /// A job, beyond what its consumer does with it.
    Managing,
    Other,
}

impl Act {
    fn of(method: &Method, path: &str) -> Self {
        let path = path.strip_prefix("/v1").unwrap_or(path);
        let mut parts = path.split('/').skip(1);
        let [first, second, third] = [(); 3].map(|()| parts.next());
        match (first, second, third) {
            (Some("tokens"), ..) => Self::Operation,
            (Some("topics"), Some(_), None) if method == Method::PUT => Self::Operation,
            (Some("topics"), Some(_), Some("jobs")) if method == Method::DELETE => Self::Operation,
            (Some("topics"), Some(_), Some("pause" | "resume" | "kick"))
                if method == Method::POST =>
            {
                Self::Operation
            }
            (Some("jobs"), Some(_), None) if [Method::PATCH, Method::DELETE].contains(method) => {
                Self::Managing
            }
            (Some("jobs"), Some(_), Some("kick")) | (Some("batch"), Some("delete"), _) => {
                Self::Managing
            }
            _ => Self::Other,
        }
    }
}
