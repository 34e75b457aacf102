//! Cached topic settings: pauses, and defaults for new jobs.
//!
//! The store keeps the settings. Each server asks for changes at least once per
//! `timer.poll_interval`, or once per eight intervals while it is alone.

use std::{
    sync::{Arc, RwLock, RwLockReadGuard},
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::waiters::Waiters;
use crate::{
    job::{Millis, Priority, SettingsChanges, Topic, TopicSettings, UnixMillis},
    store::{Hint, ReadyJobs, Store, StoreResult},
};

pub struct TopicSettingsCache {
    current: RwLock<TopicSettings>,
    /// Held from reading to replacing, so that an older reading cannot replace a newer one.
    refreshing: tokio::sync::Mutex<()>,
    /// The version of the current settings.
    changed: watch::Sender<u64>,
}

impl TopicSettingsCache {
    pub fn new(changes: Option<SettingsChanges>) -> Self {
        let mut settings = TopicSettings::default();
        changes.map(|changes| settings.apply(changes));
        let changed = watch::Sender::new(settings.version);
        Self { current: RwLock::new(settings), refreshing: tokio::sync::Mutex::default(), changed }
    }

    /// Returns the current settings. Hold the guard only briefly: changes wait for it.
    pub fn current(&self) -> RwLockReadGuard<'_, TopicSettings> {
        self.current.read().expect(UNPOISONED)
    }

    /// Returns a receiver that is notified of each change of the current settings.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.current().paused.contains_key(topic)
    }

    fn next_end(&self) -> Option<(Topic, UnixMillis)> {
        let settings = self.current();
        let ends = settings.paused.iter().filter_map(|(topic, pause)| Some((topic, pause.until?)));
        ends.min_by_key(|(_, until)| *until).map(|(topic, until)| (topic.clone(), until))
    }

    /// Reads changes from the store, and wakes pops that wait for resumed topics.
    pub async fn refresh(&self, store: &dyn Store, waiters: &Waiters) -> StoreResult<()> {
        let _alone = self.refreshing.lock().await;
        let known = self.current().version;
        let Some(changes) = store.settings(known).await? else { return Ok(()) };
        let resumed = self.current.write().expect(UNPOISONED).apply(changes);
        self.changed.send_replace(self.current().version);
        // Waiting pops check every bucket, since any may have jobs, of any priority.
        let jobs = ReadyJobs { count: u64::MAX, highest: Priority::MAX };
        for topic in &resumed {
            for bucket in store.buckets().all() {
                waiters.mark(topic, bucket, jobs);
            }
        }
        Ok(())
    }
}

/// Factor of the interval between readings while no other server is known.
const WHEN_ALONE: u32 = 8;
const UNPOISONED: &str = "no thread panics while holding this lock";

/// Task that keeps the settings up to date.
pub struct Refresher {
    pub store: Arc<dyn Store>,
    pub topics: Arc<TopicSettingsCache>,
    pub waiters: Arc<Waiters>,
    pub pause: Duration,
}

impl Refresher {
    /// Runs until `stop`. After an error the cached settings apply until the next reading.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.topics.refresh(&*self.store, &self.waiters).await {
                tracing::debug!(%error, "failed to read the settings of topics");
            }
            // A server that is alone knows its own changes; it still asks sometimes, as hints may
            // be lost.
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

    /// Ends the pauses that are over; returns how long to wait at most before the next call.
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
