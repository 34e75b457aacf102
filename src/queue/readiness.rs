//! Can this server do its work?

use std::time::Duration;

use super::service::Queue;
use crate::store::{Condition, StoreError, StoreResult};

/// A timer that has not gone through for this long (beyond its sleep) does not move.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// What works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Numbers of buckets that are out of reach: they refuse, the others go on.
    pub away: Vec<usize>,
    /// Numbers of buckets that have lost their jobs: they refuse too.
    pub replaced: Vec<usize>,
    /// The store has no room: it refuses puts, and takes what frees room.
    pub store_full: bool,
    /// One of the store's servers refuses writes.
    pub writes_refused: bool,
    /// The store's clock has jumped and has not been steady long enough since.
    pub clock_jumped: bool,
    /// Some jobs are in no topic, since their rows cannot be read.
    pub jobs_unreadable: bool,
}

impl Queue {
    /// Is the store fit, and do the timers move? A part of the buckets may be away.
    ///
    /// # Errors
    /// The store's own, or which timer stands still.
    pub async fn check(&self) -> StoreResult<Readiness> {
        self.checks.check(&*self.store).await?;
        let limit = self.settings.poll_interval + STUCK_AFTER;
        if let Some(bucket) = self.timer.stuck(limit) {
            return Err(StoreError::away(format!("the timer of bucket {bucket} is stuck")));
        }
        let Condition { is_full, refuses_writes, clock_jumps, unreadable, replaced, .. } =
            self.condition();
        let mut away = self.away();
        away.retain(|bucket| !replaced.contains(bucket));
        if away.len() + replaced.len() == self.timer.buckets() {
            return Err(StoreError::away("no bucket is within reach"));
        }
        Ok(Readiness {
            away,
            replaced,
            store_full: is_full,
            writes_refused: refuses_writes,
            clock_jumped: clock_jumps.unsteady,
            jobs_unreadable: unreadable > 0,
        })
    }

    /// Numbers of buckets that are out of reach, by the last calls of their timers.
    pub fn away(&self) -> Vec<usize> {
        self.timer.failing()
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.timer.buckets()
    }

    /// See [`Store::accept_loss`](crate::store::Store::accept_loss).
    ///
    /// # Errors
    /// The store's own.
    pub async fn accept_loss(&self) -> StoreResult<u64> {
        self.store.accept_loss().await
    }

    /// What this process has noticed about the store.
    pub fn condition(&self) -> Condition {
        self.store.condition()
    }
}
