//! What the log has of requests: a line for each that failed, one for each act of an operator on a
//! whole topic, and at debug one for each. Never bodies; they are the jobs'.

use std::time::Instant;

use axum::{
    Extension,
    extract::Request,
    http::{HeaderValue, Method, Uri},
    response::{IntoResponseParts, Response, ResponseParts},
};

use super::{peer::Peer, problem::Problem};

/// A request as the log names it.
pub struct Asked {
    method: Method,
    uri: Uri,
    peer: Option<Peer>,
    /// It acts on a whole topic.
    audited: bool,
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
            _ if !problem.status.is_server_error() => {}
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
            audited: acts_on_a_topic(request.method(), request.uri().path()),
            at: Instant::now(),
        }
    }

    /// Logs what has become of it.
    pub fn answered(&self, response: &Response, problem: Option<&Problem>, id: &HeaderValue) {
        let Self { method, uri, .. } = self;
        let (path, request_id) = (uri.path(), id.to_str().unwrap_or_default());
        let status = response.status().as_u16();
        let part = response.extensions().get::<PartFailed>();
        if let Some(Problem { code, cause, .. }) = problem.filter(|p| p.status.is_server_error()) {
            tracing::warn!(%method, path, status, code, cause, request_id, "a request failed");
        } else if let Some(PartFailed { jobs, first: Problem { code, cause, .. } }) = part {
            tracing::warn!(
                %method, path, status, jobs, code, cause, request_id, "a part of a batch failed"
            );
        }
        if self.audited {
            let did = response.extensions().get::<Did>().map(|did| did.0.as_str());
            let result = did.or(problem.map(|problem| problem.code)).unwrap_or_default();
            let peer = self.peer();
            tracing::info!(
                target: "delay_queue::audit",
                %method, %uri, status, result, peer, request_id, "an operator's act"
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

/// Whether this is one of the routes by which an operator acts on a topic as a whole.
fn acts_on_a_topic(method: &Method, path: &str) -> bool {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let act = path.strip_prefix("/topics/").map(|topic| topic.split_once('/'));
    match act {
        Some(None) => method == Method::PUT,
        Some(Some((_, "jobs"))) => method == Method::DELETE,
        Some(Some((_, "pause" | "resume" | "kick"))) => method == Method::POST,
        _ => false,
    }
}
