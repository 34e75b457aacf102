//! The server: assembles store, queue, routes and connections, and serves.

mod answer;
mod answers;
mod connection;
mod connections;
mod descriptors;
mod http1;
mod http2;
mod link;
mod listener;
mod socket;
mod startup_log;
mod stream;
mod tls;
mod wire;

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub use self::{
    answers::Answers,
    connections::{ConnectionLimits, Connections},
    descriptors::raise_limit,
    link::Times,
    listener::{Listener, Listeners, UnixSocket},
};

use self::{startup_log::log_startup, tls::Tls};
use crate::{
    access::{self, Access, Exposure, Tokens},
    budget::Budget,
    config::{Listen, ServerSettings, Settings, SettingsError},
    http::{Admission, App, Offer, Origins, TrustedProxies, site},
    job::Policy,
    metrics,
    push::Pushes,
    queue::{Capacity, Queue, QueueSettings},
    schedules::Schedules,
    store::{Clock, Measured, OpenError, Options, Store, StoreError},
};

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A read from the store failed after it was opened.
    #[error(transparent)]
    Reading(#[from] StoreError),
    /// Other machines can reach the server, but it has no tokens.
    #[error(
        "failed to listen on {listen} (server.listen): other machines can reach this address, and \
         there are no access tokens; create one (`delay-queue token create`), set \
         server.bootstrap_token_file, or set server.insecure = true to let every machine do \
         everything"
    )]
    Open {
        /// The address that other machines can reach.
        listen: Listen,
    },
    /// The listener failed after it was opened.
    #[error("failed to accept connections: {0}")]
    Accepting(#[from] std::io::Error),
}

/// Opens the store, waiting for it up to `store.connect_timeout`, then serves on `listeners` until
/// `shutdown` completes, and finishes requests in flight for at most `server.shutdown_grace`.
///
/// # Errors
/// See [`StartError`]. After a successful start, the server runs until `shutdown` completes.
pub async fn run(
    listeners: impl Into<Listeners>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    tokio::pin!(shutdown);
    let Listeners { public, admin } = listeners.into();
    let tls = settings.server.tls.files()?.map(Tls::open).transpose()?;
    let store = tokio::select! {
        store = open_store(&settings) => store?,
        () = &mut shutdown => return Ok(()), // no request is in flight yet
    };
    let mut registry = metrics::registry();
    let store: Arc<dyn Store> = Arc::new(Measured::new(store, &mut registry));
    let exposed = find_exposed(&public, admin.as_ref(), &settings.server);
    let access = Arc::new(read_tokens(&settings, &*store, exposed).await?);
    let stopping = CancellationToken::new();
    let _stop_on_return = stopping.clone().drop_guard();
    tokio::spawn(access::keep_in_sync(Arc::clone(&access), Arc::clone(&store), stopping));
    let tokens = Tokens::new(Arc::clone(&store), Some(Arc::clone(&access)));
    let queue = Arc::new(Queue::start(store, queue_settings(&settings), &mut registry).await?);
    let pushes = start_pushes(&queue, &settings, &mut registry)?;
    let _stop_pushes = pushes.stop_on_drop();
    let capacity = Capacity::new(&settings.limits);
    let schedules = Schedules::start(Arc::clone(&queue), capacity.clone(), &mut registry);
    let _stop_schedules = schedules.stop_on_drop();
    let app = App::new(
        Arc::clone(&queue),
        Arc::clone(&pushes),
        (Arc::clone(&schedules), capacity),
        settings.limits,
        Arc::new(tokens),
        registry,
    );
    let proxies = TrustedProxies::new(settings.server.trusted_networks()?);
    let assemble = |listener: &Listener, limits: ConnectionLimits, offer: Offer| {
        let tls = tls.clone().filter(|_| listener.is_tcp());
        let (hosts, cors) = (&settings.server.hosts, &settings.server.cors_origins);
        let origins = Origins::new(listener.exposure(), &hosts.0, &cors.0);
        let admission = Admission::new(Arc::clone(&access), origins, proxies.clone());
        (Connections::new(limits, tls), Arc::new(site(app.clone(), admission, offer)))
    };
    let limits = ConnectionLimits::from(&settings.limits);
    let offer = if admin.is_some() { Offer::Queue } else { Offer::Everything };
    let (connections, site) = assemble(&public, limits, offer);
    let (admins, operations) =
        assemble(admin.as_ref().unwrap_or(&public), limits.for_admins(), Offer::Operations);
    log_startup(&public, admin.as_ref(), &settings, &queue, access.requires_token()).await?;
    let serving = async {
        let admin = async {
            match admin {
                Some(admin) => admins.serve(admin, operations).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(connections.serve(public, site), admin).map(drop)
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => ended?,
        never = reload_files(tls.as_ref()) => match never {},
        () = &mut shutdown => {}
    }
    tracing::info!("shutting down");
    app.draining.store(true, Ordering::SeqCst);
    queue.stop_waiting();
    let grace = settings.server.shutdown_grace.into();
    let serving = futures::future::join(serving, schedules.stop());
    end_within(grace, serving, &pushes, [&connections, &admins]).await;
    queue.stop().await;
    Ok(())
}

/// Ends connections and pushes, and cuts off all that last longer than `grace`.
async fn end_within(
    grace: Duration,
    serving: impl Future,
    pushes: &Pushes,
    connections: [&Connections; 2],
) {
    pushes.stop();
    connections.iter().for_each(|connections| connections.stop.cancel());
    let ended = async { tokio::join!(serving, pushes.stopped()) };
    if tokio::time::timeout(grace, ended).await.is_err() {
        let open: usize = connections.iter().map(|connections| connections.count()).sum();
        tracing::warn!(
            connections = open,
            "ending connections and pushes that did not finish within server.shutdown_grace"
        );
        for connections in connections {
            connections.abort.cancel();
            connections.ended().await;
        }
    }
    pushes.abort().await;
}

/// Starts the pushes of the queue.
fn start_pushes(
    queue: &Arc<Queue>,
    settings: &Settings,
    registry: &mut Registry,
) -> Result<Arc<Pushes>, SettingsError> {
    let client = settings.push.client()?;
    if let Some(warning) = client.warning() {
        tracing::warn!(warning, "pushes to https endpoints may fail");
    }
    let budget = Budget::new(settings.limits.memory_bytes);
    Ok(Pushes::start(Arc::clone(queue), client, settings.push.allowed()?, budget, registry))
}

/// Creates the access control and reads the tokens. Fails if there is no token although other
/// machines can reach the server, at the address `exposed`.
async fn read_tokens(
    settings: &Settings,
    store: &dyn Store,
    exposed: Option<&Listen>,
) -> Result<Access, StartError> {
    let bootstrap = settings.server.bootstrap_token()?;
    let access = Access::new(bootstrap.as_ref(), exposed.is_some());
    access::refresh(&access, store).await?;
    match exposed {
        Some(listen) if !access.has_tokens() => Err(StartError::Open { listen: listen.clone() }),
        _ => Ok(access),
    }
}

/// Returns the first address that other machines can reach, so that requests need a token. `None`
/// if there is no such address, or if `server.insecure` allows requests without a token.
fn find_exposed<'a>(
    public: &Listener,
    admin: Option<&Listener>,
    server: &'a ServerSettings,
) -> Option<&'a Listen> {
    let is_exposed = |listener: &Listener| listener.exposure() == Exposure::Network;
    if server.insecure {
        None
    } else if is_exposed(public) {
        Some(&server.listen)
    } else {
        server.admin_listen.as_ref().filter(|_| admin.is_some_and(is_exposed))
    }
}

async fn reload_files(tls: Option<&Tls>) -> Infallible {
    match tls {
        Some(tls) => tls.reload_files().await,
        None => std::future::pending().await,
    }
}

/// Opens the store of the settings, or creates it.
pub(crate) async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let options = Options::new(settings.store.buckets()?, Clock::Own);
    Ok(settings.store.location()?.open(options).await?)
}

/// Opens the store of the settings, if it exists.
pub(crate) async fn open_existing_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let options = Options::new(settings.store.buckets()?, Clock::Own).existing();
    Ok(settings.store.location()?.open(options).await?)
}

fn queue_settings(settings: &Settings) -> QueueSettings {
    QueueSettings {
        defaults: Policy {
            ttr: settings.job_defaults.ttr,
            max_attempts: settings.job_defaults.max_attempts,
            dead_retention: settings.job_defaults.dead_retention,
            ..Policy::STANDARD
        },
        require_reservation: settings.queue.require_reservation,
        poll_interval: settings.timer.poll_interval.into(),
    }
}
