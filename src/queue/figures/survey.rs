//! Survey of the jobs of all topics and buckets, read in the background while clients request it.
//!
//! With many topics, a survey takes seconds. Therefore an answer shows the previous survey. Surveys
//! run for at most a twentieth of the time, because the store has other work.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;

use crate::{
    job::{Bucket, Topic, UnixMillis},
    store::{Clock, Store, StoreError, StoreResult, TopicPage, TopicPeek},
};

/// Maximum number of topics that one call reads. Their script blocks Redis for a few milliseconds.
const TOPICS_PER_CALL: usize = 200;
/// Minimum pause between two surveys.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Minimum ratio of the pause to the duration of the last survey.
const PAUSE_FACTOR: u32 = 20;
/// Maximum age of a shown survey.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Maximum age of a survey in metrics, which may be scraped every two minutes and report the age.
const MAX_AGE_FOR_METRICS: Duration = Duration::from_secs(300);
/// Time that metrics wait for a survey that is due.
const METRICS_WAIT: Duration = Duration::from_millis(50);

/// Job counts of all topics that have jobs. The topics were read one after another.
#[derive(Debug, Clone)]
pub struct Survey {
    /// When reading began, by the clock of this machine.
    pub as_of: UnixMillis,
    /// Topics by name, each with the sums over all buckets.
    pub topics: BTreeMap<Topic, TopicPeek>,
    /// Indexes of buckets that could not be read.
    pub unavailable: Vec<usize>,
    /// Number of running servers of the store; 0 if the store is not shared, `None` if unknown.
    pub servers: Option<u64>,
    /// How long reading took.
    pub took: Duration,
}

/// The latest survey, and a lock that allows one new survey at a time.
#[derive(Default)]
pub struct Surveys {
    latest: Mutex<Option<Taken>>,
    /// Held while a survey is made.
    making: tokio::sync::Mutex<()>,
}

/// A survey, and when it was completed.
#[derive(Clone)]
struct Taken {
    survey: Arc<Survey>,
    at: Instant,
}

impl Taken {
    fn is_due(&self) -> bool {
        self.at.elapsed() > MIN_PAUSE.max(self.survey.took * PAUSE_FACTOR)
    }
}

impl Surveys {
    /// Returns the latest survey for metrics, unless it is too old.
    pub fn latest(&self) -> Option<Arc<Survey>> {
        let latest = self.lock().clone().filter(|taken| taken.at.elapsed() < MAX_AGE_FOR_METRICS);
        latest.map(|taken| taken.survey)
    }

    /// Returns the latest survey if it is at most a minute old, otherwise makes a new one. If
    /// another survey is due, starts it in the background.
    ///
    /// # Errors
    /// The error of the store, if no bucket can be read.
    pub async fn fresh(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        calls: &TaskTracker,
    ) -> StoreResult<Arc<Survey>> {
        let latest = self.lock().clone().filter(|taken| taken.at.elapsed() < MAX_AGE);
        let Some(taken) = latest else { return self.make(&**store).await };
        if taken.is_due() && !self.is_being_made() {
            self.begin(store, calls);
        }
        Ok(taken.survey)
    }

    /// Makes a survey if one is due, and waits for it up to [`METRICS_WAIT`]. If the survey takes
    /// longer, it continues in the background.
    pub async fn refresh(self: &Arc<Self>, store: &Arc<dyn Store>, calls: &TaskTracker) {
        if !self.lock().as_ref().is_none_or(Taken::is_due) {
            return;
        }
        // While the store does not answer, at most one survey is running.
        if self.is_being_made() {
            let _ = timeout(METRICS_WAIT, self.making.lock()).await;
        } else {
            let _ = timeout(METRICS_WAIT, self.begin(store, calls)).await;
        }
    }

    fn begin(self: &Arc<Self>, store: &Arc<dyn Store>, calls: &TaskTracker) -> JoinHandle<()> {
        let (store, surveys) = (Arc::clone(store), Arc::clone(self));
        calls.spawn(async move { drop(surveys.make(&*store).await) })
    }

    /// Makes a survey, unless another task has made one in the meantime.
    async fn make(&self, store: &dyn Store) -> StoreResult<Arc<Survey>> {
        let asked = Instant::now();
        let _making = self.making.lock().await;
        let latest = self.lock().clone();
        let is_recent = |taken: &Taken| taken.at > asked || taken.at.elapsed() < MIN_PAUSE;
        if let Some(taken) = latest.filter(is_recent) {
            return Ok(taken.survey);
        }
        let survey = Arc::new(take(store).await?);
        *self.lock() = Some(Taken { survey: Arc::clone(&survey), at: Instant::now() });
        Ok(survey)
    }

    fn is_being_made(&self) -> bool {
        self.making.try_lock().is_err()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.latest.lock().expect("no thread panics while holding this lock")
    }
}

async fn take(store: &dyn Store) -> StoreResult<Survey> {
    let (as_of, begin) = (Clock::Own.now().floor, Instant::now());
    let mut survey = Survey {
        as_of,
        topics: BTreeMap::new(),
        unavailable: Vec::new(),
        servers: None,
        took: Duration::ZERO,
    };
    let mut last_error = None;
    for bucket in store.buckets().all() {
        if let Err(error) = add_bucket(store, bucket, &mut survey.topics).await {
            survey.unavailable.push(bucket.index());
            last_error = Some(error);
        }
    }
    match last_error {
        Some(error) if survey.unavailable.len() == usize::from(store.buckets().get()) => Err(error),
        _ => {
            survey.servers = match store.shared() {
                Some(shared) => shared.servers().map(|servers| servers.ids.len() as u64),
                None => Some(0),
            };
            survey.took = begin.elapsed();
            Ok(survey)
        }
    }
}

async fn add_bucket(
    store: &dyn Store,
    bucket: Bucket,
    sums: &mut BTreeMap<Topic, TopicPeek>,
) -> Result<(), StoreError> {
    let mut page = TopicPage { limit: TOPICS_PER_CALL, ..TopicPage::default() };
    loop {
        let topics = store.topics(bucket, page.clone()).await?;
        let more = topics.len() == page.limit;
        page.after = topics.last().map(|(topic, _)| topic.clone());
        for (topic, peek) in topics {
            let sum = sums.entry(topic).or_default();
            *sum = sum.plus(peek);
        }
        if !more {
            return Ok(());
        }
    }
}
