//! How many jobs a topic may have (`limits.topic_jobs`).
//!
//! The store counts the jobs of a topic that is put to once a second; what this server puts
//! meanwhile is added. So one server lets no job too many in, and may refuse for a second after
//! jobs have gone; of several servers each adds at most what the others put within a second.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

use super::{code::Code, problem::Problem};
use crate::{
    job::{State, Topic},
    queue::Queue,
};

/// How long a count is good.
const COUNT_AGAIN: Duration = Duration::from_secs(1);
/// Topics that were not put to for so long are forgotten when there are so many.
const TOPICS: usize = 10_000;

/// All topics that were put to.
#[derive(Clone)]
pub struct TopicJobs(Option<Arc<Inner>>);

struct Inner {
    limit: u64,
    topics: Mutex<HashMap<Topic, Known>>,
}

#[derive(Default)]
struct Known {
    /// What the store has counted.
    counted: Option<u64>,
    /// When it was asked.
    asked: Option<Instant>,
    /// What was put since it was asked, and what is being put.
    since: u64,
    in_flight: u64,
}

/// A job that may be put.
pub struct Admitted {
    all: Arc<Inner>,
    topic: Topic,
}

impl TopicJobs {
    /// At most `limit` in each topic; no limit costs nothing.
    pub fn new(limit: Option<u64>) -> Self {
        Self(limit.map(|limit| Arc::new(Inner { limit, topics: Mutex::default() })))
    }

    /// Lets one more job in; keep what it answers until the job is put.
    ///
    /// # Errors
    /// 429 `topic_full`.
    pub async fn admit(&self, topic: &Topic, queue: &Queue) -> Result<Option<Admitted>, Problem> {
        let Some(all) = &self.0 else { return Ok(None) };
        if all.begin_count(topic, Instant::now()) {
            // A store that cannot count says so better to the put.
            let counts = queue.topic(topic).await.map(|topic| topic.counts).ok();
            let count = counts.map(|counts| State::ALL.iter().map(|&s| counts.of(s)).sum());
            let mut topics = all.lock();
            let known = topics.entry(topic.clone()).or_default();
            known.counted = count.or(known.counted).or(Some(0));
        }
        all.admit(topic).map(Some)
    }
}

impl Inner {
    /// Whether the store is to be asked.
    fn begin_count(&self, topic: &Topic, now: Instant) -> bool {
        let mut topics = self.lock();
        if topics.len() >= TOPICS {
            let is_old = |at: Instant| now.saturating_duration_since(at) >= COUNT_AGAIN;
            topics.retain(|_, known| known.in_flight > 0 || !known.asked.is_none_or(is_old));
        }
        let known = topics.entry(topic.clone()).or_default();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < COUNT_AGAIN;
        if known.asked.is_some_and(is_recent) && known.counted.is_some() {
            return false;
        }
        (known.asked, known.since) = (Some(now), 0);
        true
    }

    fn admit(self: &Arc<Self>, topic: &Topic) -> Result<Admitted, Problem> {
        let mut topics = self.lock();
        let known = topics.entry(topic.clone()).or_default();
        if known.counted.unwrap_or(0) + known.since + known.in_flight >= self.limit {
            let limit = self.limit;
            let detail =
                format!("the topic has {limit} jobs, as many as it may (limits.topic_jobs)");
            return Err(Problem::new(Code::TopicFull, detail));
        }
        known.in_flight += 1;
        Ok(Admitted { all: Arc::clone(self), topic: topic.clone() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, Known>> {
        self.topics.lock().expect("no thread panics while holding this lock")
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut topics = self.all.lock();
        let known = topics.entry(self.topic.clone()).or_default();
        known.in_flight = known.in_flight.saturating_sub(1);
        known.since += 1; // or it was refused; the next count tells
    }
}
