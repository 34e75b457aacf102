//! Connections of a listener: limits, closing of idle and slow connections, and shutdown.

mod accept;

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use slab::Slab;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    descriptors,
    link::{Link, Times},
    tls::Tls,
};
use crate::{config::Limits, http::KeyedLimit};

/// Idle time after which a connection closes at shutdown; a request that arrives earlier is
/// answered.
pub const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Minimum time that a connection must have been idle before it may be closed to make room.
const MIN_IDLE: Duration = Duration::from_millis(100);
/// Divisor for the number of idle connections that are closed when there is no room: at most 1/16
/// of all connections.
const CLOSED_FRACTION: usize = 16;
/// Interval of the check for connections that have been idle or slow for too long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Limits of the connections of one listener.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Timeouts of clients.
    pub times: Times,
    /// Maximum size of a request head, in bytes.
    pub max_head_bytes: usize,
    /// Maximum number of open connections.
    pub max: usize,
    /// Maximum number of open connections of one address.
    pub max_per_address: usize,
}

/// Maximum number of connections of the admin listener, which other clients cannot use up.
const MAX_ADMIN_CONNECTIONS: usize = 64;

impl ConnectionLimits {
    /// Returns the limits for the admin listener.
    pub fn for_admins(self) -> Self {
        Self { max: MAX_ADMIN_CONNECTIONS, max_per_address: MAX_ADMIN_CONNECTIONS, ..self }
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
            max_head_bytes: limits.header_bytes,
            max: limits.connections,
            max_per_address: limits.connections_per_address,
        }
    }
}

/// All connections of one listener.
#[derive(Clone)]
pub struct Connections {
    /// Timeouts of clients.
    pub times: Times,
    /// Maximum size of a request head, in bytes.
    pub max_head_bytes: usize,
    /// `None` without TLS.
    pub tls: Option<Tls>,
    /// Maximum number of open connections.
    max: usize,
    by_address: KeyedLimit<IpAddr>,
    open: TaskTracker,
    /// When cancelled, no connection is accepted, and each open connection takes at most one more
    /// request.
    pub stop: CancellationToken,
    /// When cancelled, open connections are closed, even if they have requests in flight.
    pub abort: CancellationToken,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    links: Mutex<Slab<Arc<Link>>>,
    /// Whether the last accept failed for lack of room.
    crowded: AtomicBool,
    /// Notified when a connection has been accepted.
    opened: Notify,
    /// Notified when a connection has been closed.
    closed: Notify,
}

impl Connections {
    /// Creates an empty set of connections; without `tls` they use plain HTTP.
    pub fn new(limits: ConnectionLimits, tls: Option<Tls>) -> Self {
        Self {
            times: limits.times,
            max_head_bytes: limits.max_head_bytes,
            tls,
            max: limits.max.min(descriptors::for_connections()),
            by_address: KeyedLimit::new(limits.max_per_address),
            open: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            shared: Arc::default(),
        }
    }

    /// Ends connections that have been idle or slow for too long.
    async fn sweep(&self) -> Infallible {
        loop {
            let is_empty = {
                let links = self.lock();
                links.iter().for_each(|(_, link)| link.check(self.times));
                links.is_empty()
            };
            if is_empty {
                self.shared.opened.notified().await;
            }
            sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Completes when all connections have ended; none may be accepted after this call.
    pub async fn ended(&self) {
        self.open.close();
        self.open.wait().await;
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Returns whether answers should close their connections: at shutdown, or for lack of room.
    pub fn wants_connections_closed(&self) -> bool {
        self.stop.is_cancelled() || self.shared.crowded.load(Ordering::Relaxed)
    }

    /// Completes when `span` has passed since `abort`.
    pub async fn aborted_for(&self, span: Duration) {
        self.abort.cancelled().await;
        sleep(span).await;
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= self.max
    }

    /// Closes the connections that have been idle for longest; returns their number.
    fn close_idle(&self) -> usize {
        let links = self.lock();
        let mut idle: Vec<(Instant, &Arc<Link>)> = links
            .iter()
            .filter_map(|(_, link)| Some((link.idle_since()?, link)))
            .filter(|(since, link)| since.elapsed() >= MIN_IDLE && link.is_quiet())
            .collect();
        idle.sort_unstable_by_key(|&(since, _)| since);
        idle.truncate((links.len() / CLOSED_FRACTION).max(1));
        idle.iter().for_each(|(_, link)| link.discard());
        idle.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slab<Arc<Link>>> {
        self.shared.links.lock().expect("no thread panics while holding this lock")
    }
}

/// Entry of `Shared::links`; its drop removes the connection.
struct ConnectionPermit<'a> {
    all: &'a Connections,
    slot: usize,
}

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        // The socket closes with this entry, or as soon as the connection drops it.
        drop(self.all.lock().remove(self.slot));
        self.all.shared.closed.notify_one();
    }
}
