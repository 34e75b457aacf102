//! Topic settings, as this server knows it: pause, and defaults for new jobs.
//!
//! The store keeps it; each server asks, at least every `timer.poll_interval`, whether it has changed; one that
//! is alone, every 8 times that.

use std::{
    sync::{Arc, RwLock, RwLockReadGuard},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{Queue, waiters::Waiters};
use crate::{
    job::{Bucket, SettingsNews, Topic, TopicDefaults, TopicSettings},
    store::{Hint, Store, StoreError, StoreResult},
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
        self.current().paused.contains(topic)
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
                    () = tokio::time::sleep(self.pause) => {}
                    () = stop.cancelled() => return,
                }
                if !self.store.shared().is_some_and(|shared| shared.is_alone(Bucket::FIRST)) {
                    break;
                }
            }
        }
    }
}

impl Queue {
    /// Pauses or resumes a topic: here at once, on other servers as soon as they hear of it, and
    /// within eight times `timer.poll_interval` if they do not.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set(|store| async move { store.set_paused(topic, paused).await }).await
    }

    /// Sets what applies to new jobs of a topic that do not say; nothing set takes it away.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_defaults(&self, topic: Topic, defaults: TopicDefaults) -> StoreResult<()> {
        let defaults = Some(defaults).filter(|defaults| *defaults != TopicDefaults::default());
        self.set(|store| async move { store.set_defaults(topic, defaults).await }).await
    }

    /// Makes a change and takes it up here, in a task of its own: a client that hangs up must not
    /// leave it half done. If taking it up fails, the next poll of [`Refresher`] does it.
    async fn set<F>(&self, change: impl FnOnce(Arc<dyn Store>) -> F) -> StoreResult<()>
    where
        F: Future<Output = StoreResult<()>> + Send + 'static,
    {
        let changed = change(Arc::clone(&self.store));
        let (store, topics) = (Arc::clone(&self.store), Arc::clone(&self.topics));
        let waiters = Arc::clone(&self.waiters);
        let task = self.calls.spawn(async move {
            changed.await?;
            store.publish(Hint::Settings);
            if let Err(error) = topics.refresh(&*store, &waiters).await {
                tracing::warn!(%error, "failed to read the settings of topics; trying again");
            }
            Ok(())
        });
        task.await.unwrap_or_else(|_| Err(StoreError::unknown("the change panicked")))
    }

    /// Whether a topic hands out nothing, as this server knows it.
    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.topics.is_paused(topic)
    }

    /// The defaults for new jobs of a topic, as this server knows it.
    pub fn defaults(&self, topic: &Topic) -> TopicDefaults {
        self.topics.current().defaults.get(topic).cloned().unwrap_or_default()
    }
}
