//! Assembles the parts and serves: store, queue, routes, connections.

mod connection;
mod connections;
mod descriptors;
mod greeting;
mod http1;
mod http2;
mod link;
mod listener;
mod socket;
mod stream;
mod tls;
mod wire;

use std::{
    convert::Infallible,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tower::Layer;
use tower_http::timeout::RequestBodyDeadlineLayer;

pub use self::{
    descriptors::raise_limit,
    listener::{Listener, UnixSocket},
};

pub(crate) use self::{connections::Connections, link::Times};

use self::tls::Tls;
use crate::{
    access::{Access, Exposure},
    config::{Listen, Settings, SettingsError, StoreUrl},
    http::{Admission, App, Memory, Origins, router},
    job::Defaults,
    queue::{Queue, QueueSettings},
    store::{Clock, OpenError, Options, Store, StoreError, file::FileStore, redis::RedisStore},
};

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store, once it was open.
    #[error(transparent)]
    Reading(#[from] StoreError),
    /// Other machines can reach it, and it has no tokens.
    #[error(
        "failed to listen on {listen} (server.listen): other machines can reach this address, and \
         there are no tokens that say who may do what; create one (`delay-queue token create`), \
         set server.bootstrap_token_file, or let every machine do everything by \
         server.insecure = true"
    )]
    Open {
        /// Where it would listen.
        listen: Listen,
    },
    /// The listener, once it was open.
    #[error("failed to accept connections: {0}")]
    Accepting(#[from] std::io::Error),
}

/// Opens the store, waiting for it up to `store.connect_timeout`, then serves on `listener` until
/// `shutdown` completes and what was in flight is done, at most `server.shutdown_grace` later.
///
/// # Errors
/// The store cannot be opened. Once this serves, nothing ends it but `shutdown`.
pub async fn run(
    listener: impl Into<Listener>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    tokio::pin!(shutdown);
    let listener = listener.into();
    let tls = settings.server.tls.files()?.map(Tls::open).transpose()?;
    let store = tokio::select! {
        store = open_store(&settings) => store?,
        () = &mut shutdown => return Ok(()), // there is nothing to finish
    };
    let exposure = match &listener {
        Listener::Tcp(listener) => Exposure::of(listener.local_addr()?.ip()),
        Listener::Unix(_) => Exposure::Local,
    };
    let closed = exposure == Exposure::Network && !settings.server.insecure;
    let bootstrap = settings.server.bootstrap_token()?;
    if closed && bootstrap.is_none() {
        return Err(StartError::Open { listen: settings.server.listen.clone() });
    }
    let access = Arc::new(Access::new(bootstrap.as_ref(), closed));
    let (hosts, cors) = (&settings.server.hosts, &settings.server.cors_origins);
    let origins = Origins::new(exposure, &hosts.0, &cors.0);
    let admission = Admission { access: Arc::clone(&access), origins };
    let queue = Arc::new(Queue::start(store, queue_settings(&settings)).await?);
    let draining = Arc::new(AtomicBool::new(false));
    let app = App {
        queue: Arc::clone(&queue),
        limits: settings.limits,
        memory: Memory::new(settings.limits.memory_bytes),
        draining: Arc::clone(&draining),
    };
    let body_deadline = RequestBodyDeadlineLayer::new(settings.server.body_timeout.into());
    let service = body_deadline.layer(router(app, admission));

    let times = &settings.server;
    let times = Times {
        header: times.header_timeout.into(),
        idle: times.header_timeout.into(),
        write: times.write_timeout.into(),
    };
    let connections = Connections::new(times, tls.clone().filter(|_| listener.is_tcp()));
    greeting::greet(&listener, &settings, &queue, access.is_closed()).await?;
    let mut serving = std::pin::pin!(connections.serve(listener, service));
    tokio::select! {
        ended = serving.as_mut() => ended?,
        never = follow_files(tls.as_ref()) => match never {},
        () = &mut shutdown => {}
    }
    tracing::info!("shutting down");
    draining.store(true, Ordering::SeqCst);
    queue.stop_waiting();
    connections.stop.cancel();
    let grace = settings.server.shutdown_grace.into();
    if tokio::time::timeout(grace, serving).await.is_err() {
        let left = connections.count();
        tracing::warn!(left, "cut connections that did not finish in time");
        connections.abort.cancel();
        connections.ended().await;
    }
    queue.stop().await;
    Ok(())
}

async fn follow_files(tls: Option<&Tls>) -> Infallible {
    match tls {
        Some(tls) => tls.follow_files().await,
        None => std::future::pending().await,
    }
}

/// Opens the store that the settings name.
pub(crate) async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let options = Options { buckets: settings.store.buckets()?, clock: Clock::Own };
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
        StoreUrl::Redis(redis) => Arc::new(RedisStore::open(*redis, options).await?),
    })
}

fn queue_settings(settings: &Settings) -> QueueSettings {
    QueueSettings {
        defaults: Defaults {
            ttr: settings.job_defaults.ttr,
            max_attempts: settings.job_defaults.max_attempts,
            dead_retention: settings.job_defaults.dead_retention,
        },
        require_reservation: settings.queue.require_reservation,
        poll_interval: settings.timer.poll_interval.into(),
    }
}
