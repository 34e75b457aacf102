//! HTTP/1.1 on one connection.
//!
//! Hyper reads requests and writes answers. This module adds an answer to unreadable requests, a
//! close that loses no answer, and the shutdown of the server.

use std::{convert::Infallible, io::ErrorKind, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING},
};
use futures::{StreamExt, stream::FuturesUnordered};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::AsyncWriteExt,
    time::{sleep, timeout},
};

use super::{
    answer::AnswerBody,
    answers::Answers,
    connections::{CLOSE_GRACE, Connections},
    link::{Answering, CloseReason, Link, Phase},
    stream::Stream,
    wire::Transport,
};
use crate::http::{ConnectionError, Peer};

/// How long the server waits for more input of a client that keeps sending after its answer. The
/// server discards this input: if it closed the socket earlier, the kernel would reset the
/// connection, and the answer could be lost.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of bytes that the server discards from such a client.
const MAX_DISCARDED: usize = 64 << 20;

/// Serves a connection until either side closes it.
pub async fn serve<W: Transport, A: Answers>(
    all: &Connections,
    link: Arc<Link>,
    wire: W,
    is_encrypted: bool,
    site: Arc<A>,
) {
    let peer = Peer::new(link.socket.clone(), link.socket.address(), is_encrypted);
    let answer = service_fn(|request: Request<Incoming>| {
        link.begin_request();
        // Closes the connection after a request with `Transfer-Encoding`. Hyper ignores a
        // `Content-Length` in such a request; a proxy that obeys it would place the end of the
        // request elsewhere, so both sides could disagree about where the next request begins.
        let is_last = request.headers().contains_key(TRANSFER_ENCODING);
        let (site, peer, answering) = (&site, peer.clone(), Answering(Arc::clone(&link)));
        async move {
            let mut response = site.answer(request.map(Body::new), &peer).await;
            if is_last || all.wants_connections_closed() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(AnswerBody::http1(response, peer, answering))
        }
    });
    let mut stream = Stream { wire, link: Arc::clone(&link) };
    let connection = http1::Builder::new()
        .max_buf_size(all.max_head_bytes) // also limits how much of a body hyper buffers for the handler
        .serve_connection(TokioIo::new(&mut stream), answer);
    // Polls the second future only after a wake of its own, not with each step of a request.
    let mut closing: FuturesUnordered<_> = std::iter::once(until_closing(all, &link)).collect();
    let error = tokio::select! {
        biased;
        ended = connection => match ended {
            Ok(()) => None,
            Err(error) => {
                tracing::debug!(%error, "a connection failed");
                refusal(&error, &link)
            }
        },
        Some(error) = closing.next() => match error {
            None => return,
            error => error,
        },
    };
    tokio::select! {
        () = close(&mut stream.wire, &link, error, all.times.write) => {}
        () = all.aborted_for(LINGER) => {}
    }
}

/// Tells a client that speaks plain HTTP that this port requires TLS.
pub async fn refuse_plain<W: Transport>(all: &Connections, link: &Link, mut wire: W) {
    tokio::select! {
        () = close(&mut wire, link, Some(ConnectionError::NoTls), all.times.write) => {}
        () = all.aborted_for(LINGER) => {}
    }
}

/// Returns the error to send if hyper could not read a request; `None` after any other failure.
fn refusal(error: &hyper::Error, link: &Link) -> Option<ConnectionError> {
    let status = link.refused();
    match link.phase() {
        Phase::Waiting | Phase::Reading if error.is_parse() => {
            Some(ConnectionError::Unreadable { status })
        }
        Phase::Reading if error.is_incomplete_message() => {
            Some(ConnectionError::Unreadable { status })
        }
        _ => None,
    }
}

/// Waits until the server must close the connection; returns the error to send to the client.
async fn until_closing(all: &Connections, link: &Link) -> Option<ConnectionError> {
    tokio::select! {
        () = all.stop.cancelled() => {}
        end = link.ending() => return (end == CloseReason::TooSlow).then_some(ConnectionError::TooSlow),
    }
    loop {
        let idle = link.idle_since().map_or(Duration::ZERO, |since| since.elapsed());
        if idle >= CLOSE_GRACE && link.is_quiet() {
            return None;
        }
        if idle >= CLOSE_GRACE && link.phase() == Phase::Reading {
            return Some(ConnectionError::Stopping { handled: false });
        }
        let remaining = CLOSE_GRACE.saturating_sub(idle).max(Duration::from_millis(1));
        tokio::select! {
            () = sleep(remaining) => {}
            () = all.abort.cancelled() => {
                let handled = link.phase() == Phase::Handling;
                return handled.then_some(ConnectionError::Stopping { handled });
            }
        }
    }
}

/// Sends the error, closes the sending side, and discards input until the client closes its side.
async fn close<W: Transport>(
    wire: &mut W,
    link: &Link,
    error: Option<ConnectionError>,
    write_timeout: Duration,
) {
    let answer = error.map(ConnectionError::http1_bytes).unwrap_or_default();
    let written = async {
        wire.write_all(&answer).await?;
        wire.shutdown().await
    };
    if !matches!(timeout(write_timeout, written).await, Ok(Ok(()))) {
        return;
    }
    tokio::select! {
        _ = timeout(write_timeout, discard_input(link)) => {}
        _ = link.ending() => {}
    }
}

/// Discards input until the client closes its side, pauses too long, or has sent too much.
async fn discard_input(link: &Link) {
    let mut budget = MAX_DISCARDED;
    while let Ok(Ok(())) = timeout(LINGER, link.socket.readable()).await {
        // `try_reading` also resets the readiness of the socket in the runtime.
        let more = link.socket.try_reading(|| match link.discard_input(&mut budget) {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(()),
        });
        if more.is_ok() {
            return;
        }
    }
}
