//! Hints of other servers on the same store: polls, ready jobs, changed settings and schedules.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::queue::{
    settings_cache::TopicSettingsCache, timer::handle::TimerHandle, waiters::Waiters,
};
use crate::{
    job::Bucket,
    store::{Hint, Store, Subscription},
};

pub struct HintListener {
    pub hints: Subscription,
    pub store: Arc<dyn Store>,
    pub timer: Arc<TimerHandle>,
    pub waiters: Arc<Waiters>,
    pub topics: Arc<TopicSettingsCache>,
    pub schedules_changed: Arc<Notify>,
}

impl HintListener {
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let hint = tokio::select! {
                hint = self.hints.recv() => hint,
                () = stop.cancelled() => None,
            };
            match hint {
                Some(Hint::Polled(bucket)) => self.polled(bucket),
                Some(Hint::Ready { bucket, topic, jobs }) => {
                    self.waiters.mark(&topic, bucket, jobs);
                }
                Some(Hint::Settings) => {
                    if let Err(error) = self.topics.refresh(&*self.store, &self.waiters).await {
                        tracing::debug!(%error, "failed to read the settings of topics");
                    }
                }
                Some(Hint::Schedules) => self.schedules_changed.notify_one(),
                None => return,
            }
        }
    }

    /// Records another server's poll for all buckets on the same server of the store.
    fn polled(&self, bucket: Bucket) {
        let server = |bucket| self.store.representative(bucket);
        let buckets = self.store.buckets().all().filter(|&b| server(b) == server(bucket));
        buckets.for_each(|bucket| self.timer.polled_elsewhere(bucket));
    }
}
