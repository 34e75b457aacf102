//! Topic settings, as this server knows it: pause, and defaults for new jobs.
//!
//! The store keeps it; each server asks, at least every `timer.poll_interval`, whether it has changed; one that
//! is alone, every 8 times that.

use std::{
    sync::{Arc, RwLock, RwLockReadGuard},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::waiters::Waiters;
use crate::{
    job::{Millis, SettingsNews, Topic, TopicSettings, UnixMillis},
    store::{Hint, Store, StoreResult},
};

/// The settings in force here.
pub struct TopicSettingsCache {
    current: RwLock<TopicSettings>,
    /// Held from reading to replacing: an older reading must not come after a newer one.
    refreshing: tokio::sync::Mutex<()>,
}

impl TopicSettingsCache {
    pub fn new(changes: Option<SettingsNews>) -> Self {
        let mut settings = TopicSettings::default();
        changes.map(|changes| settings.take(changes));
        Self { current: RwLock::new(settings), refreshing: tokio::sync::Mutex::default() }
    }

    /// What is set now; for a moment, as changes wait meanwhile.
    pub fn current(&self) -> RwLockReadGuard<'_, TopicSettings> {
        self.current.read().expect(UNPOISONED)
    }

    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.current().paused.contains_key(topic)
    }

    /// The pause that ends first by itself, and when.
    fn next_end(&self) -> Option<(Topic, UnixMillis)> {
        let settings = self.current();
        let ends = settings.paused.iter().filter_map(|(topic, pause)| Some((topic, pause.until?)));
        ends.min_by_key(|(_, until)| *until).map(|(topic, until)| (topic.clone(), until))
    }

    /// Reads what has changed, and tells who waits for a topic that is resumed.
    pub async fn refresh(&self, store: &dyn Store, waiters: &Waiters) -> StoreResult<()> {
        let _alone = self.refreshing.lock().await;
        let known = self.current().version;
        let Some(changes) = store.settings(known).await? else { return Ok(()) };
        let resumed = self.current.write().expect(UNPOISONED).take(changes);
        // Waiting pops check every bucket: there may be jobs in any.
        for topic in &resumed {
            for bucket in store.buckets().all() {
                waiters.mark(topic, bucket, u64::MAX);
            }
        }
        Ok(())
    }
}

/// How many times longer it is not asked for changes while no other server is heard of.
const WHEN_ALONE: u32 = 8;
const UNPOISONED: &str = "no thread panics while holding this lock";

/// What keeps the settings up to date.
pub struct Refresher {
    pub store: Arc<dyn Store>,
    pub topics: Arc<TopicSettingsCache>,
    pub waiters: Arc<Waiters>,
    pub pause: Duration,
}

impl Refresher {
    /// Runs until `stop`. After an error the old settings hold until the next poll.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.topics.refresh(&*self.store, &self.waiters).await {
                tracing::debug!(%error, "failed to read the settings of topics");
            }
            // Alone, it made the changes itself; hints may be lost, so it does ask now and then.
            for _ in 0..WHEN_ALONE {
                tokio::select! {
                    () = tokio::time::sleep(self.end_pauses().await) => {}
                    () = stop.cancelled() => return,
                }
                if !self.store.shared().is_some_and(|shared| shared.is_alone()) {
                    break;
                }
            }
        }
    }

    /// Ends the pauses whose time has come; answers how long to wait for the next one, at most.
    async fn end_pauses(&self) -> Duration {
        let mut ended = None;
        loop {
            let next = self.topics.next_end();
            let (Some((topic, until)), true) = (next.clone(), next != ended) else {
                return self.pause;
            };
            let done = match self.store.end_pause(topic, until).await {
                Ok(Millis::ZERO) => self.topics.refresh(&*self.store, &self.waiters).await,
                Ok(left) => return self.pause.min(left.into()),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                tracing::debug!(%error, "failed to end a pause; trying again");
                return self.pause;
            }
            self.store.publish(Hint::Settings);
            ended = next;
        }
    }
}
