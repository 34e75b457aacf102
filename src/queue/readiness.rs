//! Readiness: whether this server can do its work.

use std::time::Duration;

use super::service::Queue;
use crate::store::{Condition, StoreError, StoreResult};

/// Maximum time that a round of a timer may take beyond its sleep. After this time, the timer is
/// stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Result of a readiness check: the parts that do not work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Indexes of buckets that are unavailable and refuse requests; the others still work.
    pub unavailable: Vec<usize>,
    /// Indexes of buckets that have lost their jobs and refuse requests.
    pub replaced: Vec<usize>,
    /// Whether the store has no room: it refuses puts, but accepts requests that free room.
    pub store_full: bool,
    /// Whether one of the store's servers refuses writes.
    pub writes_refused: bool,
    /// Whether the settings of one of the store's servers may lose jobs; it refuses puts.
    pub store_unsafe: bool,
    /// Whether the store's clock has jumped and has not been steady for long enough since then.
    pub clock_jumped: bool,
    /// Whether some jobs are in no topic, because their rows cannot be read.
    pub jobs_unreadable: bool,
}

impl Queue {
    /// Checks the store and the timers. Some of the buckets may be unavailable.
    ///
    /// # Errors
    /// The error of the store, or that a timer is stuck or no bucket is available.
    pub async fn check(&self) -> StoreResult<Readiness> {
        self.checks.check(&*self.store).await?;
        let limit = self.settings.poll_interval + STUCK_AFTER;
        if let Some(bucket) = self.timer.stuck(limit) {
            return Err(StoreError::unavailable(format!("the timer of bucket {bucket} is stuck")));
        }
        let condition = self.condition();
        let Condition { is_full, refuses_writes, may_lose_jobs, clock_jumps, unreadable, .. } =
            condition;
        let replaced = condition.replaced;
        let mut unavailable = self.unavailable_buckets();
        unavailable.retain(|bucket| !replaced.contains(bucket));
        if unavailable.len() + replaced.len() == self.timer.buckets() {
            return Err(StoreError::unavailable("no bucket is available"));
        }
        Ok(Readiness {
            unavailable,
            replaced,
            store_full: is_full,
            writes_refused: refuses_writes,
            store_unsafe: may_lose_jobs,
            clock_jumped: clock_jumps.unsteady,
            jobs_unreadable: unreadable > 0,
        })
    }

    /// Returns the indexes of the buckets that did not answer the timer's last call.
    pub fn unavailable_buckets(&self) -> Vec<usize> {
        self.timer.failing()
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.timer.buckets()
    }

    /// Accepts the loss of jobs; see [`Store::accept_loss`](crate::store::Store::accept_loss).
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn accept_loss(&self) -> StoreResult<u64> {
        self.store.accept_loss().await
    }

    /// Returns the problems of the store that this process has noticed.
    pub fn condition(&self) -> Condition {
        self.store.condition()
    }
}
