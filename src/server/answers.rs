//! Answering the requests of connections.

use std::future::Future;

use axum::{extract::Request, response::Response};

use crate::http::{Peer, Site};

/// Answers the requests of a listener's connections.
pub trait Answers: Send + Sync + 'static {
    /// Answers a request of this client.
    fn answer(&self, request: Request, peer: &Peer) -> impl Future<Output = Response> + Send;
}

impl Answers for Site {
    fn answer(&self, request: Request, peer: &Peer) -> impl Future<Output = Response> + Send {
        self.answer(request, peer)
    }
}
