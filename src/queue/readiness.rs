//! Can this server do its work?

use std::time::Duration;

use super::Queue;
use crate::store::{Outcome, StoreError};

/// A timer that has not gone through for this long (beyond its sleep) does not move.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// What works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Numbers of buckets that are out of reach: they refuse, the others go on.
    pub away: Vec<usize>,
}

impl Queue {
    /// Is the store fit, and do the timers move? A part of the buckets may be away.
    ///
    /// # Errors
    /// The store's own, or which timer stands still.
    pub async fn check(&self) -> Outcome<Readiness> {
        self.store.check().await?;
        let limit = self.settings.max_sleep + STUCK_AFTER;
        let mut away = Vec::new();
        for (bucket, bell) in self.bells.iter().enumerate() {
            if bell.is_failing() {
                away.push(bucket);
            } else if bell.since_last_pass() > limit {
                return Err(StoreError::away(format!("the timer of bucket {bucket} is stuck")));
            }
        }
        if away.len() == self.bells.len() {
            return Err(StoreError::away("no bucket is within reach"));
        }
        Ok(Readiness { away })
    }

    /// In how many buckets jobs were lost since this server began; see [`crate::store::Store`].
    pub fn losses(&self) -> u64 {
        self.store.losses()
    }
}
