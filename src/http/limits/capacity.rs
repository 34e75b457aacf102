//! Limits of topics and of the store (`limits.topic_jobs`, `topic_bytes`, `store_jobs`,
//! `store_bytes`).
//!
//! While jobs are put, the store counts them once a second, or every ten seconds while less than
//! half of each limit is used; puts of this server since then are added. So a single server never
//! exceeds a limit, and may refuse puts for a second after jobs have gone. With several servers,
//! each exceeds it by at most the jobs that the others put between two counts.

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::keyed::Keyed;
use crate::{
    config::Limits,
    http::problem::{Code, Problem},
    job::Topic,
    queue::Queue,
    store::{StoreResult, Usage},
};

/// Time after which a count is repeated, and the same while less than half of each limit is used.
const COUNT_AGAIN: Duration = Duration::from_secs(1);
const COUNT_HALF_EMPTY_AGAIN: Duration = Duration::from_secs(10);
/// Time after which an unanswered count is repeated.
const LOST: Duration = Duration::from_secs(10);
/// Maximum number of topics with a cached count; any further topic is counted for every put.
const TOPICS: usize = 10_000;

/// Free room in topics and in the store.
#[derive(Clone)]
pub struct Capacity {
    topics: Option<Arc<Bound<Topic>>>,
    store: Option<Arc<Bound<()>>>,
}

/// Admission of a put. Until this value is dropped, the put's jobs and bytes count as being put.
pub struct Admitted {
    _topic: Option<CapacityPermit<Topic>>,
    _store: Option<CapacityPermit<()>>,
}

impl Capacity {
    /// Creates the limits from the settings. Without a limit nothing is counted.
    pub fn new(limits: &Limits) -> Self {
        let Limits { topic_jobs, topic_bytes, store_jobs, store_bytes, .. } = *limits;
        Self {
            topics: Bound::new(topic_jobs, topic_bytes),
            store: Bound::new(store_jobs, store_bytes),
        }
    }

    /// Returns whether any limit is set.
    pub fn is_limited(&self) -> bool {
        self.topics.is_some() || self.store.is_some()
    }

    /// Admits another job with a body of `bytes` bytes.
    ///
    /// # Errors
    /// 429 `topic_full`, 507 `store_full`.
    pub async fn put(
        &self,
        topic: &Topic,
        bytes: usize,
        queue: &Queue,
    ) -> Result<Admitted, Problem> {
        self.admit(topic, Usage { jobs: 1, bytes: bytes as u64 }, queue).await
    }

    /// Admits a new body of `bytes` bytes for an existing job.
    ///
    /// # Errors
    /// 429 `topic_full`, 507 `store_full`.
    pub async fn change(
        &self,
        topic: &Topic,
        bytes: usize,
        queue: &Queue,
    ) -> Result<Admitted, Problem> {
        self.admit(topic, Usage { jobs: 0, bytes: bytes as u64 }, queue).await
    }

    async fn admit(&self, topic: &Topic, more: Usage, queue: &Queue) -> Result<Admitted, Problem> {
        let now = Instant::now();
        let of_topic = match &self.topics {
            None => None,
            Some(topics) => {
                let permit =
                    topics.take(topic, more, now, || queue.topic_usage(topic.clone())).await;
                permit.map_err(topic_full)?
            }
        };
        let of_store = match &self.store {
            None => None,
            Some(store) => {
                store.take(&(), more, now, || queue.usage()).await.map_err(store_full)?
            }
        };
        Ok(Admitted { _topic: of_topic, _store: of_store })
    }
}

fn topic_full(full: Full) -> Problem {
    let (limit, what, key) = match full {
        Full::Jobs(limit) => (limit, "jobs", "topic_jobs"),
        Full::Bytes(limit) => (limit, "bytes of bodies", "topic_bytes"),
    };
    let detail = format!("the topic is full: it may have at most {limit} {what} (limits.{key})");
    Problem::new(Code::TopicFull, detail)
}

fn store_full(full: Full) -> Problem {
    let (limit, what, key) = match full {
        Full::Jobs(limit) => (limit, "have", "store_jobs"),
        Full::Bytes(limit) => (limit, "take", "store_bytes"),
    };
    let unit = if key == "store_jobs" { "jobs" } else { "bytes" };
    let detail = format!(
        "the store has no room for more jobs: it may {what} at most {limit} {unit} (limits.{key}); \
         finishing and deleting still work"
    );
    Problem::new(Code::StoreFull, detail)
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    Jobs(u64),
    Bytes(u64),
}

/// Limits of jobs and bytes, and the cached counts of each key.
struct Bound<K> {
    jobs: Option<u64>,
    bytes: Option<u64>,
    known: Mutex<Keyed<K, Known>>,
}

#[derive(Default)]
struct Known {
    /// Last count of the store, and the time at which it was requested.
    counted: Option<(Usage, Instant)>,
    /// Time at which an unanswered count was requested.
    asking: Option<Instant>,
    /// Jobs and bytes put since `counted` was requested, and since `asking`.
    since: Usage,
    since_asking: Usage,
    /// Jobs and bytes that are being put.
    in_flight: Usage,
}

/// Jobs and bytes that are being put under one key.
struct CapacityPermit<K: Eq + Hash> {
    bound: Arc<Bound<K>>,
    key: K,
    what: Usage,
}

/// Step before a put is admitted or refused.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Use the cached count.
    No,
    /// Request a count at this time, and cache it.
    Count(Instant),
    /// Request a count without caching it: the cache is full.
    CountOnly,
}

impl<K: Eq + Hash + Clone> Bound<K> {
    fn new(jobs: Option<u64>, bytes: Option<u64>) -> Option<Arc<Self>> {
        let known = Mutex::new(Keyed::new(TOPICS, COUNT_AGAIN));
        (jobs.is_some() || bytes.is_some()).then(|| Arc::new(Self { jobs, bytes, known }))
    }

    async fn take<F: Future<Output = StoreResult<Usage>>>(
        self: &Arc<Self>,
        key: &K,
        more: Usage,
        now: Instant,
        count: impl FnOnce() -> F,
    ) -> Result<Option<CapacityPermit<K>>, Full> {
        let look = self.look(key, now);
        if look != Look::No {
            // If the store cannot count, the put itself will fail with a better error.
            let counted = count().await.ok();
            match look {
                Look::Count(asked) => self.counted(key, asked, counted),
                _ => return self.fits(counted.unwrap_or_default(), more).map(|()| None),
            }
        }
        let mut all = self.lock();
        let known = all.again(key);
        self.fits(known.all(), more)?;
        known.in_flight = known.in_flight.plus(more);
        Ok(Some(CapacityPermit { bound: Arc::clone(self), key: key.clone(), what: more }))
    }

    fn look(&self, key: &K, now: Instant) -> Look {
        let mut all = self.lock();
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_needed = |known: &Known| {
            let last = known.asking.or(known.counted.map(|(_, at)| at));
            known.in_flight != Usage::default()
                || last.is_some_and(|at| age(at) < COUNT_HALF_EMPTY_AGAIN)
        };
        let Some(known) = all.entry(key, now.into_std(), is_needed, Known::default) else {
            return Look::CountOnly;
        };
        let again =
            if self.is_half_empty(known.all()) { COUNT_HALF_EMPTY_AGAIN } else { COUNT_AGAIN };
        let is_good = known.counted.is_some_and(|(_, at)| age(at) < again);
        let is_asked = known.counted.is_some() && known.asking.is_some_and(|at| age(at) < LOST);
        if is_good || is_asked {
            return Look::No;
        }
        (known.asking, known.since_asking) = (Some(now), Usage::default());
        Look::Count(now)
    }

    /// Caches the count requested at `asked`; after an error, keeps the old one for an interval.
    fn counted(&self, key: &K, asked: Instant, counted: Option<Usage>) {
        let mut all = self.lock();
        let known = all.again(key);
        if known.asking != Some(asked) && known.counted.is_some() {
            return; // a later count was requested meanwhile
        }
        known.asking = None;
        match (counted, known.counted) {
            (Some(counted), _) => {
                known.counted = Some((counted, asked));
                known.since = known.since_asking;
            }
            (None, Some((old, _))) => known.counted = Some((old, asked)),
            (None, None) => {}
        }
    }

    fn fits(&self, there: Usage, more: Usage) -> Result<(), Full> {
        let all = there.plus(more);
        match (self.jobs, self.bytes) {
            (Some(limit), _) if more.jobs > 0 && all.jobs > limit => Err(Full::Jobs(limit)),
            (_, Some(limit)) if all.bytes > limit => Err(Full::Bytes(limit)),
            _ => Ok(()),
        }
    }

    fn is_half_empty(&self, there: Usage) -> bool {
        let is_below_half = |there: u64, limit: Option<u64>| limit.is_none_or(|l| there < l / 2);
        is_below_half(there.jobs, self.jobs) && is_below_half(there.bytes, self.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Keyed<K, Known>> {
        self.known.lock().expect("no thread panics while holding this lock")
    }
}

impl Known {
    fn all(&self) -> Usage {
        let counted = self.counted.map_or(Usage::default(), |(counted, _)| counted);
        counted.plus(self.since).plus(self.in_flight)
    }
}

impl<K: Eq + Hash> Drop for CapacityPermit<K> {
    fn drop(&mut self) {
        let mut all = self.bound.known.lock().expect("no thread panics while holding this lock");
        let Some(known) = all.get_mut(&self.key) else { return };
        known.in_flight = known.in_flight.minus(self.what);
        // Counted even if the put failed; the next count corrects that.
        known.since = known.since.plus(self.what);
        known.since_asking = known.since_asking.plus(self.what);
    }
}

#[cfg(test)]
mod tests;
