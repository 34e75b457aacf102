//! HTTP/2 on one connection: concurrent requests, each in a stream.
//!
//! Hyper implements the protocol and limits the streams of a client. This module closes a
//! connection that is idle, or whose client does not read its answers or cancels too many requests,
//! and shuts connections down with the server.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use axum::{body::Body, http::header::CONNECTION};
use hyper::{
    Request,
    body::{Body as _, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Instant, sleep_until};

use super::{
    answer::AnswerBody,
    answers::Answers,
    connections::{CLOSE_GRACE, Connections},
    link::{InFlight, Link},
    wire::Transport,
};
use crate::http::{ConnectionError, Peer};

/// Maximum number of requests in flight on a connection.
const MAX_STREAMS: u32 = 128;
/// Maximum number of bytes of one request that a client may send before a handler reads them.
const STREAM_WINDOW: u32 = 128 << 10;
/// Maximum number of bytes of all requests of a connection that a client may send before handlers
/// read them.
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Maximum number of bytes of an answer that hyper buffers for a stream; `limits.memory_bytes` does
/// not include them.
const SEND_BUFFER: usize = 64 << 10;

/// Serves a connection until either side closes it.
pub async fn serve<W: Transport, A: Answers>(
    all: &Connections,
    link: Arc<Link>,
    wire: W,
    site: Arc<A>,
) {
    let peer = Peer::new(link.socket.clone(), link.socket.address(), true);
    let (abort, write_timeout) = (all.abort.clone(), all.times.write);
    let answer = service_fn(|request: Request<Incoming>| {
        let in_flight = InFlight::new(&link);
        let (site, abort, peer) = (Arc::clone(&site), abort.clone(), peer.clone());
        async move {
            let mut response = tokio::select! {
                answer = site.answer(request.map(Body::new), &peer) => answer,
                () = abort.cancelled() => ConnectionError::Stopping { handled: true }.response(),
            };
            response.headers_mut().remove(CONNECTION); // HTTP/2 forbids this header
            let bytes = response.body().size_hint().lower();
            in_flight.answered(bytes, write_timeout);
            Ok::<_, Infallible>(AnswerBody::http2(response, peer, in_flight))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(all.max_head_bytes).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(wire), answer);
    let mut connection = pin!(connection);
    let end = tokio::select! {
        ended = connection.as_mut() => return log_end(ended),
        end = link.ending() => Some(end),
        () = all.stop.cancelled() => None,
    };
    connection.as_mut().graceful_shutdown();
    // The client has `CLOSE_GRACE` after its last request to acknowledge the shutdown.
    let last = async {
        if let Some(end) = end {
            tracing::debug!(?end, "closing a connection");
            return tokio::time::sleep(CLOSE_GRACE).await;
        }
        tokio::select! {
            () = idle_for(&link, CLOSE_GRACE) => {}
            () = all.aborted_for(CLOSE_GRACE) => {}
        }
    };
    tokio::select! {
        ended = connection => log_end(ended),
        () = last => {}
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Waits until no request has been in flight for `span`.
async fn idle_for(link: &Link, span: Duration) {
    loop {
        let since = link.idle_since().unwrap_or_else(Instant::now);
        if since.elapsed() >= span {
            return;
        }
        sleep_until(since + span).await;
    }
}
