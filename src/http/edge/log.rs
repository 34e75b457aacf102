//! Log lines about requests: failures, the audit (operators' actions and requests refused for lack
//! of rights), and, at debug level, every request. Bodies are never logged: jobs may hold secrets.

use std::{net::Ipv4Addr, sync::OnceLock, time::Instant};

use axum::{
    Extension,
    extract::Request,
    http::{HeaderValue, Method, Uri},
    response::{IntoResponseParts, Response, ResponseParts},
};

use crate::{
    access::masked,
    http::{
        client::{
            identity::Identity,
            peer::{ClientAddress, Peer},
        },
        limits::{
            limit_by::network,
            per_minute::{Count, PerMinute},
        },
        problem::Problem,
        requests::CLIENT_GONE,
    },
};

/// Log target of the audit. Its lines are JSON in every log format.
pub const AUDIT: &str = "delay_queue::audit";
/// Maximum number of bytes of a path that the log shows; a path may be as long as a request's head.
const MAX_PATH_BYTES: usize = 256;

/// The data of a request that the log shows. If it is dropped without an answer, the client has
/// disconnected.
pub struct RequestLog {
    method: Method,
    uri: Uri,
    id: HeaderValue,
    peer: Peer,
    /// Empty until the request is admitted.
    caller: OnceLock<Identity>,
    kind: ActionKind,
    started: Instant,
    is_answered: bool,
}

/// Result of an action on a whole topic, for the audit.
#[derive(Clone)]
pub struct AuditDetail(pub String);

impl IntoResponseParts for AuditDetail {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        Extension(self).into_response_parts(parts)
    }
}

/// Number of jobs of a batch that failed in the store, and the first failure, for the log.
#[derive(Clone)]
pub struct PartFailed {
    pub jobs: usize,
    pub first: Problem,
}

impl PartFailed {
    /// Counts a job if its problem is a server error.
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

impl RequestLog {
    pub fn new(request: &Request, id: HeaderValue, peer: Peer, started: Instant) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            id,
            peer,
            caller: OnceLock::new(),
            kind: ActionKind::from_request(request.method(), request.uri().path()),
            started,
            is_answered: false,
        }
    }

    /// Sets the caller. Called once per request.
    pub fn admitted(&self, caller: Identity) {
        let _ = self.caller.set(caller);
    }

    /// Logs the answer. `refused` counts the refused requests without a token.
    pub fn answered(mut self, response: &Response, problem: Option<&Problem>, refused: &PerMinute) {
        self.is_answered = true;
        let (method, request_id) = (&self.method, self.request_id());
        let status = response.status().as_u16();
        let part_failed = response.extensions().get::<PartFailed>();
        if let Some(Problem { code, cause, .. }) =
            problem.filter(|p| p.code.status().is_server_error())
        {
            let code = code.name();
            let path = self.path();
            tracing::warn!(%method, path, status, code, cause, request_id, "a request failed");
        } else if let Some(PartFailed { jobs, first: Problem { code, cause, .. } }) = part_failed {
            let (code, path) = (code.name(), self.path());
            tracing::warn!(
                %method, path, status, jobs, code, cause, request_id, "a part of a batch failed"
            );
        }
        let detail = response.extensions().get::<AuditDetail>().map(|detail| detail.0.as_str());
        let result = detail.or(problem.map(|problem| problem.code.name())).unwrap_or("done");
        if [401, 403].contains(&status) {
            self.audit_refusal(status, result, refused);
        } else if self.is_audited() {
            self.audit_action(status, result);
        }
        tracing::debug!(
            target: "delay_queue::access",
            %method, path = self.path(), status, ms = self.started.elapsed().as_secs_f64() * 1_000.0,
            peer = self.peer(), request_id, "answered"
        );
    }

    fn is_audited(&self) -> bool {
        match self.kind {
            ActionKind::Operation => true,
            // Without access tokens, every client may do these, so they are not operators' actions.
            ActionKind::Managing => self.token().is_some(),
            ActionKind::Other => false,
        }
    }

    fn audit_action(&self, status: u16, result: &str) {
        let (uri, token) = (self.uri.to_string(), self.token());
        let uri = masked(&uri);
        tracing::info!(
            target: AUDIT,
            method = %self.method, uri = short(&uri), status, result, token, peer = self.peer(),
            request_id = self.request_id(), "an operator's action"
        );
    }

    /// Logs a refused request. Callers without a token must not fill the disk of the log, so only
    /// the first refusals of an address per minute are logged.
    fn audit_refusal(&self, status: u16, result: &str, refused: &PerMinute) {
        let token = self.token();
        let address = self.peer.address().map(ClientAddress::ip);
        let count = match token {
            Some(_) => Count::default(),
            None => {
                let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                refused.count(network(address), self.started)
            }
        };
        if count.is_too_many() && !count.is_first_too_many() {
            return;
        }
        let message = match count.is_first_too_many() {
            true => "a refused request; this minute, further ones from its address are not logged",
            false => "a refused request",
        };
        // Omits the query, which may contain a caller's secrets.
        let (path, left_out) = (self.path(), Some(count.left_out).filter(|&count| count > 0));
        tracing::info!(
            target: AUDIT,
            method = %self.method, uri = path, status, result, token, peer = self.peer(),
            left_out, request_id = self.request_id(), "{message}"
        );
    }

    /// Returns the path as log lines show it: masked and shortened.
    fn path(&self) -> String {
        short(&masked(self.uri.path())).to_owned()
    }

    fn token(&self) -> Option<&str> {
        self.caller.get().and_then(Identity::name).map(|name| name.as_str())
    }

    fn request_id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    fn peer(&self) -> Option<impl tracing::Value> {
        self.peer.address().map(tracing::field::display)
    }
}

impl Drop for RequestLog {
    /// Audits an action even if its client has disconnected.
    fn drop(&mut self) {
        if !self.is_answered && self.is_audited() {
            self.audit_action(
                CLIENT_GONE,
                "the client disconnected before the answer; the action may have been done",
            );
        }
    }
}

/// Returns at most the first [`MAX_PATH_BYTES`] bytes of a text.
fn short(text: &str) -> &str {
    let end = (0..=MAX_PATH_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// Kind of a request, which decides whether the audit logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActionKind {
    /// A change of a whole topic, or a request about tokens.
    Operation,
    /// A change of a job by an operator, not by its consumer.
    Managing,
    Other,
}

impl ActionKind {
    fn from_request(method: &Method, path: &str) -> Self {
        let path = path.strip_prefix("/v1").unwrap_or(path);
        let mut parts = path.split('/').skip(1);
        let [first, second, third] = [(); 3].map(|()| parts.next());
        match (first, second, third) {
            (Some("tokens"), ..) => Self::Operation,
            (Some("topics"), Some(_), None) if method == Method::PUT => Self::Operation,
            (Some("topics"), Some(_), Some("push"))
                if [Method::PUT, Method::DELETE, Method::POST].contains(method) =>
            {
                Self::Operation
            }
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
