//! Accepting connections and serving them.
//!
//! The loop is our own and small, on hyper: it gives a slow client only so long for the head of a
//! request, ends every connection in order when the server is to stop, and lets a handler ask
//! whether its client is still there.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::response::Response;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{Service, ServiceExt};

use super::stream::Stream;
use crate::http::Peer;

/// The pause after an accept that failed: mostly too many open files, which takes a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// When the server stops, how long a connection may take that has no request in flight.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// All connections of one listener.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) header_timeout: Duration,
    pub(super) open: TaskTracker,
    /// No more requests.
    pub(super) stop: CancellationToken,
    /// Whatever is still open is cut.
    pub(super) abort: CancellationToken,
}

impl Connections {
    /// Accepts for ever.
    pub(super) async fn accept<S>(&self, listener: TcpListener, service: S)
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (all, service) = (self.clone(), service.clone());
                    self.open.spawn(async move { all.serve(stream, service).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection until it ends, or until the request in flight is answered after
    /// `stop`.
    async fn serve<S>(&self, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "failed to set TCP_NODELAY");
        }
        let stream = Arc::new(stream);
        let peer = Peer::new(Arc::clone(&stream));
        let in_flight = Arc::new(AtomicBool::new(false));
        let handling = Arc::clone(&in_flight);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let answer = service.clone().oneshot(request);
            let handling = Arc::clone(&handling);
            async move {
                handling.store(true, Ordering::Relaxed);
                let answered = answer.await;
                handling.store(false, Ordering::Relaxed);
                answered
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .serve_connection(TokioIo::new(Stream::new(stream)), answer);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.no_longer_needed(&in_flight) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        }
    }

    /// Completes when a connection has had its time to end: a short while without a request in
    /// flight (its client is slow to send or to read), or else until `abort`.
    async fn no_longer_needed(&self, in_flight: &AtomicBool) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LAST_WORDS) => {}
                () = self.abort.cancelled() => return,
            }
            if !in_flight.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}
