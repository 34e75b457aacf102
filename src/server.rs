//! Assembles the parts and serves: store, queue, routes, and a loop that accepts connections.
//!
//! The loop is our own and small, on hyper: it gives a slow client only so long for the head of a
//! request, and ends every connection in order when the server is to stop.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{Layer, Service};
use tower_http::timeout::RequestBodyDeadlineLayer;

use crate::{
    config::{Settings, SettingsError, StoreSettings, StoreUrl},
    http::{App, router},
    job::Defaults,
    queue::{Queue, QueueSettings},
    store::{
        Clock, OpenError, Options, Store,
        file::FileStore,
        redis::{RedisOptions, RedisStore},
    },
};

/// The pause after an accept that failed: mostly too many open files, which takes a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
}

/// Serves on `listener` until `shutdown` completes and what was in flight is done, at most
/// `server.shutdown_grace` later.
///
/// # Errors
/// The store cannot be opened. Once this serves, nothing ends it but `shutdown`.
pub async fn run(
    listener: TcpListener,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let store = open_store(&settings).await?;
    let queue = Arc::new(Queue::start(store, queue_settings(&settings)));
    let draining = Arc::new(AtomicBool::new(false));
    let app =
        App { queue: Arc::clone(&queue), limits: settings.limits, draining: Arc::clone(&draining) };
    let body_deadline = RequestBodyDeadlineLayer::new(settings.server.body_timeout.into());
    let service = body_deadline.layer(router(app));

    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    let header_timeout = settings.server.header_timeout.into();
    tracing::info!(address = ?listener.local_addr().ok(), "serving");
    tokio::select! {
        () = accept(listener, service, header_timeout, &connections, &stop) => {}
        () = shutdown => {}
    }
    tracing::info!("shutting down");
    draining.store(true, Ordering::SeqCst);
    queue.stop_waiting();
    stop.cancel();
    connections.close();
    let grace = settings.server.shutdown_grace.into();
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        let left = connections.len();
        tracing::warn!(left, "gave up on connections that did not finish in time");
    }
    queue.stop().await;
    Ok(())
}

/// Opens the store that the settings name.
async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let options = Options {
        buckets: settings.store.buckets()?,
        dead_retention: settings.queue.dead_retention,
        clock: Clock::Own,
    };
    Ok(match settings.store.location()? {
        StoreUrl::File(dir) => {
            // Reading a large store takes a while, and it is all disk and memory.
            let opened = tokio::task::spawn_blocking(move || FileStore::open(&dir, options)).await;
            let opened = opened.map_err(|panic| OpenError::Engine {
                what: "the file store".to_owned(),
                cause: panic.to_string(),
            })?;
            Arc::new(opened?)
        }
        StoreUrl::Redis(url) => {
            let StoreSettings { prefix, accept_data_loss, .. } = settings.store.clone();
            let redis = RedisOptions { url, prefix, accept_data_loss };
            Arc::new(RedisStore::open(redis, options).await?)
        }
    })
}

fn queue_settings(settings: &Settings) -> QueueSettings {
    QueueSettings {
        defaults: Defaults { ttr: settings.queue.ttr, max_attempts: settings.queue.max_attempts },
        require_reservation: settings.queue.require_reservation,
        max_sleep: settings.timer.max_sleep.into(),
    }
}

/// Accepts for ever.
async fn accept<S>(
    listener: TcpListener,
    service: S,
    header_timeout: Duration,
    connections: &TaskTracker,
    stop: &CancellationToken,
) where
    S: Service<
            hyper::Request<hyper::body::Incoming>,
            Response = axum::response::Response,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = serve(stream, service.clone(), header_timeout, stop.clone());
                connections.spawn(serving);
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection until it ends, or until the request in flight is answered after `stop`.
async fn serve<S>(stream: TcpStream, service: S, header_timeout: Duration, stop: CancellationToken)
where
    S: Service<
            hyper::Request<hyper::body::Incoming>,
            Response = axum::response::Response,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
