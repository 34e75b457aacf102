//! Leases of running servers, in one sorted set; each server renews its lease every second.
//!
//! A lease expires by the clock of the Redis that has the set, so a killed server stays listed for
//! a few seconds. A server that shuts down cleanly removes its lease. Programs that export or
//! import jobs take no lease: they read the set and never write to it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{Pipeline, Value};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{keys, reply::Values, scripts, topology::Nodes};
use crate::store::{Lease, Servers, StoreError, StoreResult};

const LEASE: Duration = Duration::from_secs(3);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// Lease of this process, and its view of the leases of other servers.
pub struct Leases {
    shared: Arc<Shared>,
    stop: CancellationToken,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct Shared {
    nodes: Arc<Nodes>,
    key: String,
    id: String,
    seen: Mutex<Seen>,
    is_failing: AtomicBool,
}

#[derive(Default)]
struct Seen {
    /// Running servers, and the time of the request that returned them; `None` after an error.
    servers: Option<(Servers, Instant)>,
    /// Time of the last hint from another server.
    hint: Option<Instant>,
}

impl Leases {
    pub fn new(nodes: &Arc<Nodes>, prefix: &str) -> Arc<Self> {
        let shared = Arc::new(Shared {
            nodes: Arc::clone(nodes),
            key: keys::servers(prefix),
            id: format!("{:016x}", rand::random::<u64>()),
            seen: Mutex::default(),
            is_failing: AtomicBool::new(false),
        });
        Arc::new(Self { shared, stop: CancellationToken::new(), task: Mutex::default() })
    }

    /// Returns the id of this process among the servers.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Takes a lease and renews it until [`leave`](Self::leave). If the store is unavailable, a
    /// later renewal takes the lease.
    pub async fn join(&self) {
        self.shared.renew().await;
        let renewing = tokio::spawn(Arc::clone(&self.shared).renew_until(self.stop.clone()));
        *lock(&self.task) = Some(AbortOnDropHandle::new(renewing));
    }

    /// Ends the lease, if there is one. Waits for Redis at most as long as a lease lasts, because
    /// the lease has expired after that time.
    pub async fn leave(&self) {
        self.stop.cancel();
        let task = lock(&self.task).take();
        if let Some(task) = task {
            let _ = timeout(LEASE, task).await; // one that panicked has ended too
        }
    }

    /// Returns the running servers; `None` if they are unknown. They are known for as long as the
    /// lease that was renewed together with reading them.
    pub fn servers(&self) -> Option<Servers> {
        let seen = lock(&self.shared.seen);
        let (servers, _) = seen.servers.as_ref().filter(|(_, asked)| asked.elapsed() < LEASE)?;
        Some(servers.clone())
    }

    /// Returns whether this is the only server. A hint may reveal another server before its lease
    /// does.
    pub fn is_alone(&self) -> bool {
        let has_heard = lock(&self.shared.seen).hint.is_some_and(|at| at.elapsed() < LEASE);
        !has_heard && self.servers().is_some_and(|servers| servers.ids.len() == 1)
    }

    /// Records that another server has published a hint.
    pub fn record_hint(&self) {
        lock(&self.shared.seen).hint = Some(Instant::now());
    }

    /// Reads the leases that have not expired.
    pub async fn read(&self) -> StoreResult<Vec<Lease>> {
        let Shared { nodes, key, .. } = &*self.shared;
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES");
        pipeline.cmd("TIME");
        let answers = nodes.pipeline(keys::slot(key), &pipeline).await?;
        let answers = answers.into_iter().collect::<StoreResult<_>>()?;
        let mut answers = Values::new(Value::Array(answers))?;
        let (mut leases, mut time) = (answers.inner()?, answers.inner()?);
        let (seconds, micros): (f64, f64) = (time.parsed()?, time.parsed()?);
        let now = seconds * 1e3 + micros / 1e3;
        let mut running = Vec::new();
        while leases.left() > 0 {
            let lease = Lease { server: leases.text()?, until: leases.parsed()? };
            running.extend(Some(lease).filter(|lease| lease.until > now));
        }
        Ok(running)
    }
}

impl Shared {
    async fn renew_until(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(RENEWAL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset(); // the first renewal has just been made
        loop {
            tokio::select! {
                _ = ticks.tick() => self.renew().await,
                () = stop.cancelled() => break,
            }
        }
        let mut remove = redis::cmd("ZREM");
        let removed = self.nodes.command(self.slot(), remove.arg(&self.key).arg(&self.id)).await;
        if let Err(error) = removed {
            tracing::debug!(%error, "failed to end this server's lease; it ends by itself");
        }
    }

    async fn renew(&self) {
        let asked = Instant::now();
        let renewed = self.ask_to_renew().await;
        let servers = match renewed {
            Ok(servers) => {
                self.is_failing.store(false, Ordering::Relaxed);
                Some((servers, asked))
            }
            Err(error) => {
                // Warns once per outage, not once per attempt.
                match self.is_failing.swap(true, Ordering::Relaxed) {
                    false => tracing::warn!(%error, "failed to renew this server's lease"),
                    true => tracing::debug!(%error, "failed to renew this server's lease again"),
                }
                None
            }
        };
        lock(&self.seen).servers = servers;
    }

    async fn ask_to_renew(&self) -> StoreResult<Servers> {
        let renew = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::RENEW_LEASE).arg(1).arg(&self.key);
            eval.arg(&self.id).arg(LEASE.as_millis());
            eval
        };
        let living = self.nodes.script(self.slot(), None, renew).await?;
        let mut ids: Vec<String> =
            redis::from_redis_value(living).map_err(StoreError::unreadable)?;
        ids.sort_unstable();
        let own = ids.iter().position(|id| *id == self.id);
        let own =
            own.ok_or_else(|| StoreError::unreadable("the reply lacks this server's own lease"))?;
        Ok(Servers { ids: ids.into(), own })
    }

    fn slot(&self) -> u16 {
        keys::slot(&self.key)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
