//! Accepting connections, and having room for them.
//!
//! The loop is our own and small: it ends every connection in order when the server is to stop, and
//! closes idle ones when descriptors run out, so that a full server still answers.

use std::{
    convert::Infallible,
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::response::Response;
use hyper::{Request, body::Incoming};
use slab::Slab;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

use super::{
    connection::serve,
    descriptors,
    link::{Link, Phase, Times},
    listener::Listener,
    socket::Socket,
    tls::Tls,
};
use crate::{
    config::Limits,
    http::{LimitBy, network},
};

/// The pause after an accept that failed, unless a connection ends before.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection must have been idle to be closed for another one.
const IDLE: Duration = Duration::from_millis(100);
/// One in so many connections is closed when there is no room.
const SHARE: usize = 16;
/// A shortage is over when nothing was short for so long.
const OVER: Duration = Duration::from_secs(10);
/// How often connections are looked at that may have been idle or slow for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// What connections may have.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// How long clients may take.
    pub times: Times,
    /// Most bytes of a head.
    pub head: usize,
    /// Most that are open at once.
    pub most: usize,
    /// Most that are open at once, of one address.
    pub most_per_address: usize,
}

/// Most connections of operators: so many that nothing else can take theirs.
const OF_ADMINS: usize = 64;

impl ConnectionLimits {
    /// For the listener of operators.
    pub fn for_admins(self) -> Self {
        Self { most: OF_ADMINS, most_per_address: OF_ADMINS, ..self }
    }
}

impl From<&Limits> for ConnectionLimits {
    fn from(limits: &Limits) -> Self {
        let times = Times {
            header: limits.header_timeout.into(),
            idle: limits.idle_timeout.into(),
            write: limits.write_timeout.into(),
        };
        Self {
            times,
            head: limits.header_bytes,
            most: limits.connections,
            most_per_address: limits.connections_per_address,
        }
    }
}

/// All connections of one listener.
#[derive(Clone)]
pub struct Connections {
    /// How long clients may take.
    pub times: Times,
    /// Most bytes of a head.
    pub head: usize,
    /// None without TLS.
    pub tls: Option<Tls>,
    /// Most that are open at once.
    most: usize,
    by_address: LimitBy<IpAddr>,
    open: TaskTracker,
    /// No new connections, and no more than one request on each that is open.
    pub stop: CancellationToken,
    /// Whatever is still open is cut.
    pub abort: CancellationToken,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    links: Mutex<Slab<Arc<Link>>>,
    /// More clients want a connection than there is room for.
    crowded: AtomicBool,
    began: Notify,
    ended: Notify,
}

impl Connections {
    /// Connections within limits, of plain HTTP without `tls`.
    pub fn new(limits: ConnectionLimits, tls: Option<Tls>) -> Self {
        Self {
            times: limits.times,
            head: limits.head,
            tls,
            most: limits.most.min(descriptors::for_connections()),
            by_address: LimitBy::new(limits.most_per_address),
            open: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            shared: Arc::default(),
        }
    }

    /// Accepts and serves until `stop`, then what has connected by then; completes when all
    /// connections have ended.
    pub async fn serve<S>(&self, listener: Listener, service: S) -> io::Result<()>
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        tokio::select! {
            served = self.accept_all(listener, service) => served,
            never = self.sweep() => match never {},
        }
    }

    /// Ends connections that are idle or slow for too long.
    async fn sweep(&self) -> Infallible {
        loop {
            let is_empty = {
                let links = self.lock();
                links.iter().for_each(|(_, link)| link.check(self.times));
                links.is_empty()
            };
            if is_empty {
                self.shared.began.notified().await;
            }
            sleep(SWEEP).await;
        }
    }

    async fn accept_all<S>(&self, listener: Listener, service: S) -> io::Result<()>
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        let mut shortage = Shortage::default();
        while !self.stop.is_cancelled() {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = self.stop.cancelled() => break,
            };
            self.start(accepted, &service, &mut shortage).await;
        }
        // The runtime may not know yet of all that have connected: the socket does.
        loop {
            let accepted = match self.is_full() {
                true => Err(descriptors::too_many()),
                false => listener.accept_now(),
            };
            if matches!(&accepted, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
            self.start(accepted, &service, &mut shortage).await;
        }
        drop(listener);
        self.ended().await;
        Ok(())
    }

    /// Completes when all connections have ended; no more are to come.
    pub async fn ended(&self) {
        self.open.close();
        self.open.wait().await;
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Answers are the last of their connections: the server stops, or others wait for room.
    pub fn wants_connections_closed(&self) -> bool {
        self.stop.is_cancelled() || self.shared.crowded.load(Ordering::Relaxed)
    }

    /// Completes so long after `abort`.
    pub async fn aborted_for(&self, span: Duration) {
        self.abort.cancelled().await;
        sleep(span).await;
    }

    async fn accept(&self, listener: &Listener) -> io::Result<Socket> {
        match self.is_full() {
            true => Err(descriptors::too_many()),
            false => listener.accept().await,
        }
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= self.most
    }

    /// Serves a connection, or makes room for the next if this one could not be accepted.
    async fn start<S>(&self, accepted: io::Result<Socket>, service: &S, shortage: &mut Shortage)
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        match accepted {
            Ok(socket) => {
                let address = socket.address().map(|address| network(address.ip()));
                let taken = address.map(|address| self.by_address.take(address));
                if let (Some(address), Some(None)) = (address, &taken) {
                    tracing::warn!(
                        %address,
                        "closed a connection: its address has as many as it may \
                         (limits.connections_per_address)"
                    );
                    return;
                }
                self.shared.crowded.store(false, Ordering::Relaxed);
                shortage.ease();
                let phase = if self.tls.is_some() { Phase::Greeting } else { Phase::Waiting };
                let link = Arc::new(Link::new(socket, phase));
                let place = self.lock().insert(Arc::clone(&link));
                self.shared.began.notify_one();
                let (all, service) = (self.clone(), service.clone());
                self.open.spawn(async move {
                    let (_place, _taken) = (Place { all: &all, place }, taken);
                    serve(&all, link, service).await;
                });
            }
            Err(error) if descriptors::is_shortage(&error) => {
                self.shared.crowded.store(true, Ordering::Relaxed);
                let closed = self.close_idle();
                shortage.note(&error, closed, self.count());
                tokio::select! {
                    () = self.shared.ended.notified() => {}
                    () = sleep(ACCEPT_PAUSE) => {}
                }
            }
            // This one is gone again; the next may be fine.
            Err(error) => tracing::debug!(%error, "failed to accept a connection"),
        }
    }

    /// Closes the connections that have been idle for longest; how many.
    fn close_idle(&self) -> usize {
        let links = self.lock();
        let mut idle: Vec<(Instant, &Arc<Link>)> = links
            .iter()
            .filter_map(|(_, link)| Some((link.idle_since()?, link)))
            .filter(|(since, link)| since.elapsed() >= IDLE && link.is_quiet())
            .collect();
        idle.sort_unstable_by_key(|&(since, _)| since);
        idle.truncate((links.len() / SHARE).max(1));
        idle.iter().for_each(|(_, link)| link.discard());
        idle.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slab<Arc<Link>>> {
        self.shared.links.lock().expect("no thread panics while holding this lock")
    }
}

/// The place of an open connection among all of them.
struct Place<'a> {
    all: &'a Connections,
    place: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // The socket closes with this, or as soon as the connection lets go of it.
        drop(self.all.lock().remove(self.place));
        self.all.shared.ended.notify_one();
    }
}

/// A time in which connections could not be accepted: told once when it begins, once when it is
/// over.
#[derive(Default)]
struct Shortage {
    last: Option<Instant>,
    refused: u64,
    closed: usize,
}

impl Shortage {
    fn note(&mut self, error: &io::Error, closed: usize, open: usize) {
        if self.last.is_none() {
            let limit = descriptors::limit();
            tracing::warn!(
                %error, open, limit,
                "no room for another connection; the ones that are idle for longest are closed \
                 (limits.connections, or a higher limit of open files, gives room: ulimit -n, or \
                 LimitNOFILE of systemd)"
            );
        }
        self.last = Some(Instant::now());
        self.refused += 1;
        self.closed += closed;
    }

    fn ease(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() >= OVER) {
            let Self { refused, closed, .. } = std::mem::take(self);
            tracing::info!(times = refused, closed, "there is room for connections again");
        }
    }
}
