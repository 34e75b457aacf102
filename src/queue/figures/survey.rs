//! What there is, over all topics and buckets: read in the background while it is asked for.
//!
//! With many topics reading takes seconds. So an answer is never later than the reading before it, and
//! readings take a twentieth of the time at most: the store has other work.

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

/// Topics that one call reads: few enough that a script holds Redis for some milliseconds at most.
const TOPICS_PER_CALL: usize = 200;
/// How old a survey becomes before there is another, at least; and in how many times what it takes.
const FRESH: Duration = Duration::from_secs(1);
const PAUSES: u32 = 20;
/// One that is older is not shown any more.
const STALE: Duration = Duration::from_secs(60);
/// The same for metrics, which may be read once in two minutes: they tell how old it is.
const STALE_FOR_METRICS: Duration = Duration::from_secs(300);
/// How long metrics wait for a survey that is due.
const MOMENT: Duration = Duration::from_millis(50);

/// All topics that have jobs, as they were found one after the other.
#[derive(Debug, Clone)]
pub struct Survey {
    /// When reading began, by this machine's clock.
    pub as_of: UnixMillis,
    /// Each topic, all buckets together.
    pub topics: BTreeMap<Topic, TopicPeek>,
    /// Buckets that could not be read.
    pub unavailable: Vec<usize>,
    /// How many servers work on the store; none if that is not known.
    pub servers: Option<u64>,
    /// How long it took to read.
    pub took: Duration,
}

/// The latest survey, and who makes the next.
#[derive(Default)]
pub struct Surveys {
    latest: Mutex<Option<Taken>>,
    /// Held while one is made.
    making: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Taken {
    survey: Arc<Survey>,
    at: Instant,
}

impl Taken {
    /// Whether it is time for another one.
    fn is_due(&self) -> bool {
        self.at.elapsed() > FRESH.max(self.survey.took * PAUSES)
    }
}

impl Surveys {
    /// The latest one, for metrics.
    pub fn latest(&self) -> Option<Arc<Survey>> {
        let latest = self.lock().clone().filter(|taken| taken.at.elapsed() < STALE_FOR_METRICS);
        latest.map(|taken| taken.survey)
    }

    /// The latest one that is no older than a minute, or a new one; has the next made if it is due.
    ///
    /// # Errors
    /// The store's, if no bucket can be read.
    pub async fn fresh(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        calls: &TaskTracker,
    ) -> StoreResult<Arc<Survey>> {
        let latest = self.lock().clone().filter(|taken| taken.at.elapsed() < STALE);
        let Some(taken) = latest else { return self.make(&**store).await };
        if taken.is_due() && !self.is_being_made() {
            self.begin(store, calls);
        }
        Ok(taken.survey)
    }

    /// Has a survey made if one is due, and waits for it, but only a moment: it may take seconds, and
    /// then it is for the next who asks.
    pub async fn refresh(self: &Arc<Self>, store: &Arc<dyn Store>, calls: &TaskTracker) {
        if !self.lock().as_ref().is_none_or(Taken::is_due) {
            return;
        }
        // While a store does not answer, no more than one is under way.
        if self.is_being_made() {
            let _ = timeout(MOMENT, self.making.lock()).await;
        } else {
            let _ = timeout(MOMENT, self.begin(store, calls)).await;
        }
    }

    fn begin(self: &Arc<Self>, store: &Arc<dyn Store>, calls: &TaskTracker) -> JoinHandle<()> {
        let (store, surveys) = (Arc::clone(store), Arc::clone(self));
        calls.spawn(async move { drop(surveys.make(&*store).await) })
    }

    /// Makes a survey, unless another task has made one meanwhile.
    async fn make(&self, store: &dyn Store) -> StoreResult<Arc<Survey>> {
        let asked = Instant::now();
        let _making = self.making.lock().await;
        let latest = self.lock().clone();
        if let Some(taken) = latest.filter(|taken| taken.at > asked || taken.at.elapsed() < FRESH) {
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
    let mut refused = None;
    for bucket in store.buckets().all() {
        if let Err(error) = add_bucket(store, bucket, &mut survey.topics).await {
            survey.unavailable.push(bucket.index());
            refused = Some(error);
        }
    }
    match refused {
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
