//! Detects a Redis that was emptied or replaced.
//!
//! Every bucket has an incarnation: a random text written when the store is created. This process
//! remembers the incarnation of each bucket. If it is missing or has changed, the bucket has lost
//! its jobs. It refuses all calls until its incarnation is back, or until the loss is accepted and
//! the bucket has the new incarnation.

use std::{
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use redis::aio::MultiplexedConnection;

use super::Preflight;
use crate::{
    job::{Bucket, Buckets},
    store::{Applied, OpenError, StoreError, redis::Host},
};

/// Incarnations known to this process.
pub struct Incarnations {
    seen: Mutex<Vec<Known>>,
    /// Number of buckets that have lost their jobs.
    lost: AtomicUsize,
    /// Number of losses detected so far.
    losses: AtomicU64,
}

/// State of a bucket, and the time of its last change. Several requests may be running at once;
/// answers to requests from before that time are ignored.
#[derive(Debug, Clone)]
struct Known {
    seen: Seen,
    since: Instant,
}

#[derive(Debug, Clone)]
enum Seen {
    /// No request has reached its node yet.
    Never,
    /// The bucket has the jobs of this incarnation.
    Sound(String),
    /// The bucket has lost the jobs of this incarnation, if that one is known.
    Lost(Option<String>),
}

impl Incarnations {
    pub fn new(buckets: Buckets) -> Self {
        let known = Known { seen: Seen::Never, since: Instant::now() };
        let seen = Mutex::new(vec![known; buckets.get().into()]);
        Self { seen, lost: AtomicUsize::new(0), losses: AtomicU64::new(0) }
    }

    /// Compares the incarnation found at `asked` with the known one; returns whether they are
    /// equal. If not, the caller must call `judge`.
    pub fn is_known(&self, bucket: Bucket, found: Option<&str>, asked: Instant) -> bool {
        let mut all = self.lock();
        let known = &mut all[bucket.index()];
        match (&known.seen, found) {
            _ if asked < known.since => true,
            (Seen::Sound(known), Some(found)) => known == found,
            (Seen::Never, Some(found)) => {
                known.seen = Seen::Sound(found.to_owned());
                true
            }
            // The jobs are back. A process that does not know the lost incarnation trusts the one
            // that it finds, as at its start, because servers write an incarnation only for a new
            // store or after an accepted loss.
            (Seen::Lost(lost), Some(found)) if lost.as_deref().is_none_or(|l| l == found) => {
                self.restore(known, bucket, found, "a bucket has its jobs again");
                true
            }
            _ => false,
        }
    }

    /// Decides on a bucket whose incarnation is not the known one; `accepted` is the incarnation
    /// that was written when an operator or a setting accepted a loss of jobs.
    pub fn judge(
        &self,
        bucket: Bucket,
        found: Option<&str>,
        accepted: Option<&str>,
        asked: Instant,
    ) {
        let mut all = self.lock();
        let known = &mut all[bucket.index()];
        match (&known.seen, found) {
            _ if asked < known.since => {}
            (Seen::Sound(text), Some(found)) if text == found => {}
            (_, Some(found)) if accepted == Some(found) => {
                let message = "a bucket accepts calls again: the loss of its jobs was accepted";
                self.restore(known, bucket, found, message);
            }
            (Seen::Lost(_), _) => {}
            (Seen::Never | Seen::Sound(_), _) => {
                let what = if found.is_some() { "it was replaced" } else { "it was emptied" };
                tracing::error!(
                    bucket = bucket.index(),
                    what,
                    "data loss: a bucket lost the jobs that it had; it refuses all calls until they \
                     are restored, or the loss is accepted (delay-queue doctor --accept-loss)"
                );
                let lost = match mem::replace(&mut known.seen, Seen::Never) {
                    Seen::Sound(text) => Some(text),
                    Seen::Never | Seen::Lost(_) => None,
                };
                *known = Known { seen: Seen::Lost(lost), since: Instant::now() };
                self.losses.fetch_add(1, Ordering::Relaxed);
                self.lost.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn restore(&self, known: &mut Known, bucket: Bucket, found: &str, message: &str) {
        if matches!(known.seen, Seen::Lost(_)) {
            self.lost.fetch_sub(1, Ordering::Release);
        }
        tracing::warn!(bucket = bucket.index(), "{message}");
        *known = Known { seen: Seen::Sound(found.to_owned()), since: Instant::now() };
    }

    /// Returns the reason why a bucket refuses calls, if it does.
    pub fn refusal(&self, bucket: Bucket) -> Option<StoreError> {
        // Takes no lock in the usual case that no bucket is lost.
        let is_lost = self.lost.load(Ordering::Acquire) > 0
            && matches!(self.lock()[bucket.index()].seen, Seen::Lost(_));
        is_lost.then_some(REPLACED)
    }

    /// Returns the indexes of the buckets that refuse calls.
    pub fn lost(&self) -> Vec<usize> {
        if self.lost.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let all = self.lock();
        let is_lost = |&bucket: &usize| matches!(all[bucket].seen, Seen::Lost(_));
        (0..all.len()).filter(is_lost).collect()
    }

    /// Returns the number of losses: how many times any bucket has lost its jobs.
    pub fn data_losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Fails while every bucket refuses calls.
    pub fn check(&self) -> Result<(), StoreError> {
        let lost = self.lost.load(Ordering::Acquire);
        if lost > 0 && lost == self.lock().len() { Err(REPLACED) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const REPLACED: StoreError = StoreError::Replaced { applied: Applied::No };

/// Returns an incarnation that no bucket has had yet.
pub fn new() -> String {
    format!("{:016x}", rand::random::<u64>())
}

impl Preflight {
    /// Reads the incarnation at each of these keys.
    pub async fn incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
    ) -> Result<Vec<Option<String>>, OpenError> {
        let mut found = Vec::with_capacity(keys.len());
        for &key in keys {
            found.push(self.ask(host, connection, redis::cmd("GET").arg(key)).await?);
        }
        Ok(found)
    }

    /// Writes the incarnations of a new store, unless another server has just written them.
    pub async fn make_incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
        made: &str,
    ) -> Result<(), OpenError> {
        for &key in keys {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(made).arg("NX").arg("GET");
            self.ask::<Option<String>>(host, connection, &set).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
