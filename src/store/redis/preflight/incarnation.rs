//! Notices that a Redis was emptied, or is another one.
//!
//! Every bucket has an incarnation: a text made with the store. This process remembers each. A bucket
//! without its incarnation, or with another, has lost the jobs it had.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;

use super::Preflight;
use crate::{
    job::{Bucket, Buckets},
    store::{Applied, OpenError, StoreError, redis::Host},
};

/// Losses of a bucket within this are one.
const SAME_LOSS: Duration = Duration::from_secs(5);
/// Noted of a bucket that has none.
const MISSING: &str = "";

pub struct Incarnations {
    /// By bucket; none while its node was never reached.
    known: Mutex<Vec<Option<String>>>,
    made: String,
    lost: AtomicU64,
    /// When the last loss of a bucket was told.
    reported: Mutex<HashMap<usize, Instant>>,
    /// A server that accepts data loss stays ready after it.
    accept_data_loss: bool,
}

impl Incarnations {
    pub fn new(buckets: Buckets, accept_data_loss: bool) -> Self {
        let known = Mutex::new(vec![None; buckets.get().into()]);
        let made = format!("{:016x}", rand::random::<u64>());
        Self { known, made, lost: AtomicU64::new(0), reported: Mutex::default(), accept_data_loss }
    }

    /// What a bucket without an incarnation gets from this process.
    pub fn made(&self) -> &str {
        &self.made
    }

    pub fn remember(&self, bucket: usize, incarnation: String) {
        self.lock()[bucket] = Some(incarnation);
    }

    /// Compares what a bucket has now. Answers whether an incarnation must be written there.
    pub fn compare(&self, bucket: Bucket, found: Option<String>) -> bool {
        let index = bucket.index();
        let noted = found.clone().unwrap_or_default();
        let known = self.lock()[index].replace(noted.clone());
        match (known.as_deref(), noted.as_str()) {
            (Some(known), noted) if known == noted => {}
            // Its node was away when this process began.
            (None, noted) if noted != MISSING => {}
            (_, MISSING) => self.lost(&[index], "it was emptied"),
            // Another server has noticed that it was emptied, or it is another Redis.
            _ => self.lost(&[index], "it is not the one it was"),
        }
        found.is_none()
    }

    /// Logs and counts that jobs are lost. Concurrent polls may report the same loss again.
    pub fn lost(&self, buckets: &[usize], what: &str) {
        let mut last = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        for &bucket in buckets {
            let again = last.get(&bucket).is_some_and(|at| at.elapsed() < SAME_LOSS);
            if !again {
                last.insert(bucket, Instant::now());
                self.lost.fetch_add(1, Ordering::Relaxed);
                tracing::error!(bucket, what, "data loss: a bucket lost the jobs that it had");
            }
        }
    }

    /// How often a bucket was found to have lost its jobs.
    pub fn data_losses(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Refuses after a data loss that was not accepted.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.data_losses() {
            lost if lost > 0 && !self.accept_data_loss => {
                Err(StoreError::Replaced { applied: Applied::No })
            }
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Preflight {
    /// The incarnation of each of these keys, made where there is none; and which were missing.
    pub async fn incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
        made: &str,
    ) -> Result<(Vec<String>, Vec<usize>), OpenError> {
        // All are read before one is written: what is forbidden leaves nothing half done.
        let mut all: Vec<Option<String>> = Vec::with_capacity(keys.len());
        for &key in keys {
            let mut get = redis::cmd("GET");
            all.push(self.ask(host, connection, get.arg(key)).await?);
        }
        let mut incarnations = Vec::with_capacity(keys.len());
        let mut missing = Vec::new();
        for (index, (&key, found)) in keys.iter().zip(all).enumerate() {
            let incarnation = match found {
                Some(incarnation) => incarnation,
                None => {
                    let mut set = redis::cmd("SET");
                    set.arg(key).arg(made).arg("NX").arg("GET");
                    let other: Option<String> = self.ask(host, connection, &set).await?;
                    missing.extend(other.is_none().then_some(index));
                    other.unwrap_or_else(|| made.to_owned())
                }
            };
            incarnations.push(incarnation);
        }
        Ok((incarnations, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_counts_once() {
        let incarnations = Incarnations::new(Buckets::ONE, false);
        let bucket = Buckets::ONE.all().next().expect("one");
        let compare = |found: Option<&str>| {
            let write = incarnations.compare(bucket, found.map(ToOwned::to_owned));
            (write, incarnations.data_losses())
        };
        assert_eq!(compare(Some("a")), (false, 0), "never seen before");
        assert_eq!(compare(Some("a")), (false, 0));
        assert!(incarnations.check().is_ok());
        assert_eq!(compare(None), (true, 1));
        assert_eq!(compare(None), (true, 1), "not written yet");
        incarnations.remember(0, "b".to_owned());
        assert_eq!(compare(Some("b")), (false, 1));
        assert_eq!(compare(Some("a")), (false, 1), "a poll that was under way before");
        assert!(matches!(incarnations.check(), Err(StoreError::Replaced { .. })));
    }
}
