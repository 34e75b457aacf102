//! The body of an answer until its bytes are written.
//!
//! Until then, an answer may hold reserved jobs and a share of the memory budget. The jobs are
//! returned to the queue if the client has disconnected. Handlers pass both in the extensions of
//! the response, since the bodies of axum carry only bytes.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bytes::Buf;
use hyper::body::{Frame, SizeHint};

use super::link::{Answering, InFlight};
use crate::http::{Delivery, Hold, Peer};

pub struct AnswerBody {
    body: Body,
    peer: Peer,
    held: Arc<Held>,
    /// For HTTP/1.1. Dropping this guard records that hyper has taken the whole body.
    _answering: Option<Answering>,
}

/// A chunk of an answer, until hyper has written or dropped it.
pub struct AnswerBytes {
    bytes: Bytes,
    held: Arc<Held>,
}

/// Resources of an answer, released when the last of its bytes is dropped.
struct Held {
    delivery: Option<Delivery>,
    _memory: Option<Arc<Hold>>,
    _in_flight: Option<InFlight>,
}

impl AnswerBody {
    /// Wraps the answer to an HTTP/1.1 request.
    pub fn http1(response: Response, peer: Peer, answering: Answering) -> hyper::Response<Self> {
        Self::new(response, peer, Some(answering), None)
    }

    /// Wraps the answer to an HTTP/2 request.
    pub fn http2(response: Response, peer: Peer, in_flight: InFlight) -> hyper::Response<Self> {
        Self::new(response, peer, None, Some(in_flight))
    }

    fn new(
        mut response: Response,
        peer: Peer,
        answering: Option<Answering>,
        in_flight: Option<InFlight>,
    ) -> hyper::Response<Self> {
        let extensions = response.extensions_mut();
        let held = Arc::new(Held {
            delivery: extensions.remove(),
            _memory: extensions.remove(),
            _in_flight: in_flight,
        });
        response.map(|body| Self { body, peer, held, _answering: answering })
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = AnswerBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, axum::Error>>> {
        if self.held.delivery.is_some() && self.peer.is_gone() {
            // Sends no byte, since the jobs go to another consumer.
            return Poll::Ready(Some(Err(axum::Error::new(io::Error::from(
                ErrorKind::ConnectionAborted,
            )))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let held = || Arc::clone(&self.held);
        let bytes = |bytes| AnswerBytes { bytes, held: held() };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for AnswerBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    /// Called when hyper has written `count` bytes, or copied them to its write buffer.
    fn advance(&mut self, count: usize) {
        if let Some(delivery) = self.held.delivery.as_ref().filter(|_| count > 0) {
            delivery.keep();
        }
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests;
