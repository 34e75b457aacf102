//! Connections of HTTP/1.1, each with one request at a time.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::stream::Stream;

/// Greatest size of an answer's headers. Bodies are read in pieces of the same size.
const MAX_HEADERS: usize = 65_536;
/// Time after an answer in which its connection must be ready for the next request. It is not if
/// the endpoint has answered without reading the whole request.
const MAX_TIME_TO_READY: Duration = Duration::from_secs(1);

/// A connection. Its drop closes it, also in the middle of a request.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    traffic: Arc<Traffic>,
    /// Checked address that it leads to.
    pub(crate) peer: SocketAddr,
    pub(crate) opened: Instant,
}

/// Whether bytes went over a connection since its last request began.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) has_written: AtomicBool,
    pub(crate) has_read: AtomicBool,
}

/// Reason why a request has no answer.
pub(crate) struct Unanswered {
    pub(crate) error: hyper::Error,
    /// Whether a byte of the request may have arrived.
    pub(crate) has_written: bool,
    /// Whether a byte of an answer has arrived.
    pub(crate) has_read: bool,
}

impl Connection {
    pub(crate) async fn start(stream: Stream) -> hyper::Result<Self> {
        let (peer, traffic) = (stream.peer, Arc::clone(&stream.traffic));
        let mut builder = Builder::new();
        builder.max_buf_size(MAX_HEADERS);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // The sender of a request gets the error of the connection.
        let driver = tokio::spawn(async { drop(connection.await) });
        Ok(Self { sender, driver, traffic, peer, opened: Instant::now() })
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let Traffic { has_written, has_read } = &*self.traffic;
        has_written.store(false, Ordering::Relaxed);
        has_read.store(false, Ordering::Relaxed);
        self.sender.send_request(request).await.map_err(|error| Unanswered {
            error,
            has_written: has_written.load(Ordering::Relaxed),
            has_read: has_read.load(Ordering::Relaxed),
        })
    }

    /// Returns whether the connection can send a request now.
    pub(crate) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Waits until the connection can send the next request. Returns whether it will.
    pub(crate) async fn becomes_ready(&mut self) -> bool {
        matches!(timeout(MAX_TIME_TO_READY, self.sender.ready()).await, Ok(Ok(())))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
