//! What is set for topics, as this server knows it: pause, and defaults for new jobs.
//!
//! The store keeps it; each server asks, at least every `timer.max_sleep`, whether it has changed.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::{Queue, waiters::Waiters};
use crate::{
    job::{Topic, TopicDefaults, TopicSettings},
    store::{Outcome, Store},
};

/// The settings in force here.
pub(super) struct Topics(RwLock<Arc<TopicSettings>>);

impl Topics {
    pub(super) fn new(settings: TopicSettings) -> Self {
        Self(RwLock::new(Arc::new(settings)))
    }

    pub(super) fn current(&self) -> Arc<TopicSettings> {
        Arc::clone(&self.0.read().expect(UNPOISONED))
    }

    /// Takes newer settings; answers the topics that were paused and are no more.
    fn replace(&self, settings: TopicSettings) -> Vec<Topic> {
        let mut current = self.0.write().expect(UNPOISONED);
        let resumed = current.paused.difference(&settings.paused).cloned().collect();
        *current = Arc::new(settings);
        resumed
    }
}

const UNPOISONED: &str = "nobody panics while holding this lock";

/// What keeps the settings up to date.
pub(super) struct Follow {
    pub(super) store: Arc<dyn Store>,
    pub(super) topics: Arc<Topics>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) pause: Duration,
}

impl Follow {
    /// Runs until `stop`. An error is tried again at the next turn; until then the old settings hold.
    pub(super) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = refresh(&*self.store, &self.topics, &self.waiters).await {
                tracing::debug!(%error, "failed to read the settings of topics");
            }
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// Reads the settings if they have changed, and tells who waits for a topic that is resumed.
async fn refresh(store: &dyn Store, topics: &Topics, waiters: &Waiters) -> Outcome<()> {
    let known = topics.current().version;
    let Some(settings) = store.settings(known).await? else { return Ok(()) };
    let resumed = topics.replace(settings);
    if resumed.is_empty() {
        return Ok(());
    }
    let looks = store.buckets().all().map(|bucket| {
        let look = store.look(bucket, resumed.clone());
        async move { look.await.map(|look| (bucket, look)) }
    });
    for (bucket, look) in try_join_all(looks).await? {
        for (topic, ready) in resumed.iter().zip(look.ready).filter(|(_, ready)| *ready > 0) {
            waiters.mark(topic, bucket, ready);
        }
    }
    Ok(())
}

impl Queue {
    /// Pauses or resumes a topic: here at once, on other servers within `timer.max_sleep`.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_paused(&self, topic: Topic, paused: bool) -> Outcome<()> {
        self.store.set_paused(topic, paused).await?;
        refresh(&*self.store, &self.topics, &self.waiters).await
    }

    /// Sets what applies to new jobs of a topic that do not say; nothing set takes it away.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_defaults(&self, topic: Topic, defaults: TopicDefaults) -> Outcome<()> {
        let defaults = Some(defaults).filter(|defaults| *defaults != TopicDefaults::default());
        self.store.set_defaults(topic, defaults).await?;
        refresh(&*self.store, &self.topics, &self.waiters).await
    }

    /// Whether a topic hands out nothing, as this server knows it.
    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.topics.current().paused.contains(topic)
    }

    /// What is set for new jobs of a topic, as this server knows it.
    pub fn defaults(&self, topic: &Topic) -> TopicDefaults {
        self.topics.current().defaults.get(topic).cloned().unwrap_or_default()
    }
}
