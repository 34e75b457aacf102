//! What the log has of requests: a line for each that failed, the audit (acts of operators, and what was
//! refused for lack of rights), and at debug one for each. Never bodies; they are the jobs'.

use std::time::Instant;

use axum::{
    Extension,
    extract::Request,
    http::{HeaderValue, Method, Uri},
    response::{IntoResponseParts, Response, ResponseParts},
};

use super::{identity::Identity, peer::Peer, problem::Problem};

/// The target of the audit: a line of JSON each, in every format of the log.
pub const AUDIT: &str = "delay_queue::audit";
/// So much of a path is logged: it may be as long as a head.
const PATH: usize = 256;

/// A request as the log names it.
pub struct Asked {
    method: Method,
    uri: Uri,
    peer: Option<Peer>,
    /// What it acts on, for the audit.
    act: Act,
    at: Instant,
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
    pub fn new(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            peer: request.extensions().get().cloned(),
            act: Act::of(request.method(), request.uri().path()),
            at: Instant::now(),
        }
    }

    /// Logs what has become of it.
    pub fn answered(&self, response: &Response, problem: Option<&Problem>, id: &HeaderValue) {
        let Self { method, uri, .. } = self;
        let (path, request_id) = (short(uri.path()), id.to_str().unwrap_or_default());
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
        let identity = response.extensions().get::<Identity>();
        let token = identity.and_then(Identity::name).map(|name| name.as_str());
        let is_audited = match self.act {
            Act::Operation => true,
            // Without tokens these are what every client does.
            Act::Managing => token.is_some(),
            Act::Other => false,
        };
        let is_refused = [401, 403].contains(&status);
        if is_audited || is_refused {
            let did = response.extensions().get::<Did>().map(|did| did.0.as_str());
            let result = did.or(problem.map(|problem| problem.code.name())).unwrap_or("done");
            let peer = self.peer();
            // What others send may have secrets in its query.
            let uri = if is_audited && !is_refused { uri.to_string() } else { path.to_owned() };
            let uri = short(&uri);
            let what = if is_refused { "a refused request" } else { "an operator's act" };
            tracing::info!(
                target: AUDIT,
                %method, uri, status, result, token, peer, request_id, "{what}"
            );
        }
        tracing::debug!(
            target: "delay_queue::access",
            %method, path, status, ms = self.at.elapsed().as_secs_f64() * 1_000.0,
            peer = self.peer(), request_id, "answered"
        );
    }

    fn peer(&self) -> Option<impl tracing::Value> {
        self.peer.as_ref().and_then(Peer::address).map(tracing::field::display)
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
