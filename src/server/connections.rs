//! All connections of a listener: how many there may be, which are idle or slow, and their end.

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
use crate::{config::Limits, http::LimitBy};

/// When the server stops, how long a connection stays open that has no request in flight: a
/// request that its client sends meanwhile is answered.
pub const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a connection must have been idle to be closed for another one.
const IDLE: Duration = Duration::from_millis(100);
/// One in so many connections is closed when there is no room.
const SHARE: usize = 16;
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

    fn is_full(&self) -> bool {
        self.lock().len() >= self.most
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
