//! Limits of topics and of the store (`limits.topic_jobs`, `topic_bytes`, `store_jobs`,
//! `store_bytes`).
//!
//! Each limit is compared with a cached count of the store plus the jobs that this server has put
//! since that count. While jobs are put, the count is repeated every second, or every ten seconds
//! while less than half of each limit is used. So a single server never exceeds a limit, but may
//! refuse puts for up to a second after jobs have been removed. Several servers together exceed it
//! by at most the jobs that the other servers put between two counts.

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::service::Queue;
use crate::{
    bounded_map::BoundedMap,
    config::Limits,
    job::Topic,
    store::{StoreResult, Usage},
};

/// Time after which a count is repeated while at least half of a limit is used.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a count is repeated while less than half of each limit is used.
const COUNT_INTERVAL_BELOW_HALF: Duration = Duration::from_secs(10);
/// Time after which an unanswered count is repeated.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of topics with a cached count. The jobs of further topics are counted at each
/// put.
const MAX_TOPICS: usize = 10_000;

/// Limits of the jobs and bytes of each topic and of the store.
#[derive(Clone)]
pub struct Capacity {
    topics: Option<Arc<UsageLimit<Topic>>>,
    store: Option<Arc<UsageLimit<()>>>,
}

/// Admission of a put. Until this value is dropped, the put's jobs and bytes count as in flight.
pub struct Admitted {
    _topic: Option<CapacityPermit<Topic>>,
    _store: Option<CapacityPermit<()>>,
}

impl Capacity {
    /// Creates the limits from the settings. Without a limit, nothing is counted.
    pub fn new(limits: &Limits) -> Self {
        let Limits { topic_jobs, topic_bytes, store_jobs, store_bytes, .. } = *limits;
        Self {
            topics: UsageLimit::new(topic_jobs, topic_bytes),
            store: UsageLimit::new(store_jobs, store_bytes),
        }
    }

    /// Returns whether any limit is set.
    pub fn is_limited(&self) -> bool {
        self.topics.is_some() || self.store.is_some()
    }

    /// Admits another job with a body of `bytes` bytes.
    ///
    /// # Errors
    /// The topic or the store is full.
    pub async fn put(&self, topic: &Topic, bytes: usize, queue: &Queue) -> Result<Admitted, Full> {
        self.admit(topic, Usage { jobs: 1, bytes: bytes as u64 }, queue).await
    }

    /// Admits a new body of `bytes` bytes for an existing job.
    ///
    /// # Errors
    /// The topic or the store is full.
    pub async fn change(
        &self,
        topic: &Topic,
        bytes: usize,
        queue: &Queue,
    ) -> Result<Admitted, Full> {
        self.admit(topic, Usage { jobs: 0, bytes: bytes as u64 }, queue).await
    }

    async fn admit(&self, topic: &Topic, more: Usage, queue: &Queue) -> Result<Admitted, Full> {
        let now = Instant::now();
        let of_topic = match &self.topics {
            None => None,
            Some(topics) => {
                let permit =
                    topics.take(topic, more, now, || queue.topic_usage(topic.clone())).await;
                permit.map_err(Full::Topic)?
            }
        };
        let of_store = match &self.store {
            None => None,
            Some(store) => {
                store.take(&(), more, now, || queue.usage()).await.map_err(Full::Store)?
            }
        };
        Ok(Admitted { _topic: of_topic, _store: of_store })
    }
}

/// A limit that has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// A limit of the topic.
    Topic(Reached),
    /// A limit of the store.
    Store(Reached),
}

/// The value of the limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Number of jobs.
    Jobs(u64),
    /// Bytes of bodies; in the limit of the store, of everything that it keeps.
    Bytes(u64),
}

/// Limits of the jobs and bytes per key: of each topic, or of the whole store.
struct UsageLimit<K> {
    jobs: Option<u64>,
    bytes: Option<u64>,
    usage: Mutex<BoundedMap<K, KeyUsage>>,
}

/// The known usage of a key.
#[derive(Default)]
struct KeyUsage {
    /// The last count of the store, and when it was requested.
    counted: Option<(Usage, Instant)>,
    /// When the next count was requested; `None` if it is answered.
    requested_at: Option<Instant>,
    /// Jobs and bytes put since `counted` was requested.
    since: Usage,
    /// Jobs and bytes put since `requested_at`.
    since_request: Usage,
    /// Jobs and bytes of puts that are not answered yet.
    in_flight: Usage,
}

/// Jobs and bytes of a put under one key; in flight until it is dropped.
struct CapacityPermit<K: Eq + Hash> {
    limit: Arc<UsageLimit<K>>,
    key: K,
    added: Usage,
}

/// The count that decides whether a put is admitted.
#[derive(Debug, PartialEq, Eq)]
enum CountStep {
    /// Use the cached count.
    UseCached,
    /// Request a count at this time, and cache it.
    Count(Instant),
    /// Request a count without caching it, since the cache is full.
    CountUncached,
}

impl<K: Eq + Hash + Clone> UsageLimit<K> {
    fn new(jobs: Option<u64>, bytes: Option<u64>) -> Option<Arc<Self>> {
        let usage = Mutex::new(BoundedMap::new(MAX_TOPICS, COUNT_INTERVAL));
        (jobs.is_some() || bytes.is_some()).then(|| Arc::new(Self { jobs, bytes, usage }))
    }

    async fn take<F: Future<Output = StoreResult<Usage>>>(
        self: &Arc<Self>,
        key: &K,
        more: Usage,
        now: Instant,
        count: impl FnOnce() -> F,
    ) -> Result<Option<CapacityPermit<K>>, Reached> {
        let step = self.step(key, now);
        if step != CountStep::UseCached {
            // If the store cannot count, the put itself will fail with a better error.
            let counted = count().await.ok();
            match step {
                CountStep::Count(requested_at) => self.cache(key, requested_at, counted),
                _ => return self.check(counted.unwrap_or_default(), more).map(|()| None),
            }
        }
        let mut all = self.lock();
        let usage = all.get_or_default(key);
        self.check(usage.total(), more)?;
        usage.in_flight = usage.in_flight.plus(more);
        Ok(Some(CapacityPermit { limit: Arc::clone(self), key: key.clone(), added: more }))
    }

    fn step(&self, key: &K, now: Instant) -> CountStep {
        let mut all = self.lock();
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_needed = |usage: &KeyUsage| {
            let last = usage.requested_at.or(usage.counted.map(|(_, at)| at));
            usage.in_flight != Usage::default()
                || last.is_some_and(|at| age(at) < COUNT_INTERVAL_BELOW_HALF)
        };
        let Some(usage) = all.entry(key, now.into_std(), is_needed, KeyUsage::default) else {
            return CountStep::CountUncached;
        };
        let interval = match self.is_below_half(usage.total()) {
            true => COUNT_INTERVAL_BELOW_HALF,
            false => COUNT_INTERVAL,
        };
        let is_recent = usage.counted.is_some_and(|(_, at)| age(at) < interval);
        let is_requested =
            usage.counted.is_some() && usage.requested_at.is_some_and(|at| age(at) < COUNT_TIMEOUT);
        if is_recent || is_requested {
            return CountStep::UseCached;
        }
        (usage.requested_at, usage.since_request) = (Some(now), Usage::default());
        CountStep::Count(now)
    }

    /// Caches a count, or after an error uses the old one for another interval.
    fn cache(&self, key: &K, requested_at: Instant, counted: Option<Usage>) {
        let mut all = self.lock();
        let usage = all.get_or_default(key);
        if usage.requested_at != Some(requested_at) && usage.counted.is_some() {
            return; // another count was requested later
        }
        usage.requested_at = None;
        match (counted, usage.counted) {
            (Some(counted), _) => {
                usage.counted = Some((counted, requested_at));
                usage.since = usage.since_request;
            }
            (None, Some((old, _))) => usage.counted = Some((old, requested_at)),
            (None, None) => {}
        }
    }

    /// Checks that `more` can be added to `used` without exceeding a limit.
    fn check(&self, used: Usage, more: Usage) -> Result<(), Reached> {
        let total = used.plus(more);
        match (self.jobs, self.bytes) {
            (Some(limit), _) if more.jobs > 0 && total.jobs > limit => Err(Reached::Jobs(limit)),
            (_, Some(limit)) if total.bytes > limit => Err(Reached::Bytes(limit)),
            _ => Ok(()),
        }
    }

    /// Returns whether less than half of each limit is used.
    fn is_below_half(&self, used: Usage) -> bool {
        let is_below_half = |used: u64, limit: Option<u64>| limit.is_none_or(|l| used < l / 2);
        is_below_half(used.jobs, self.jobs) && is_below_half(used.bytes, self.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, BoundedMap<K, KeyUsage>> {
        self.usage.lock().expect("no thread panics while holding this lock")
    }
}

impl KeyUsage {
    fn total(&self) -> Usage {
        let counted = self.counted.map_or(Usage::default(), |(counted, _)| counted);
        counted.plus(self.since).plus(self.in_flight)
    }
}

impl<K: Eq + Hash> Drop for CapacityPermit<K> {
    fn drop(&mut self) {
        let mut all = self.limit.usage.lock().expect("no thread panics while holding this lock");
        let Some(usage) = all.get_mut(&self.key) else { return };
        usage.in_flight = usage.in_flight.minus(self.added);
        // Added even if the put failed; the next count corrects that.
        usage.since = usage.since.plus(self.added);
        usage.since_request = usage.since_request.plus(self.added);
    }
}

#[cfg(test)]
mod tests;
