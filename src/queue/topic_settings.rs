//! What clients set for a topic: a pause, and defaults for new jobs.

use std::sync::Arc;

use super::service::Queue;
use crate::{
    job::{Millis, Pause, PolicyFields, Schedule, Topic, UnixMillis},
    store::{Hint, Store, StoreError, StoreResult},
};

impl Queue {
    /// Pauses or resumes a topic: here at once, on other servers as soon as they hear of it, and
    /// within eight times `timer.poll_interval` if they do not.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set(|store| async move { store.set_paused(topic, paused).await }).await
    }

    /// Pauses a topic for a time; answers when that ends. Any server of the store then ends it.
    ///
    /// # Errors
    /// The store's.
    pub async fn pause_for(&self, topic: Topic, span: Millis) -> StoreResult<UnixMillis> {
        self.set(|store| async move { store.pause_until(topic, Schedule::In(span)).await }).await
    }

    /// Sets what applies to new jobs of a topic that do not say; nothing set takes it away.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_defaults(&self, topic: Topic, defaults: PolicyFields) -> StoreResult<()> {
        let defaults = Some(defaults).filter(|defaults| *defaults != PolicyFields::default());
        self.set(|store| async move { store.set_defaults(topic, defaults).await }).await
    }

    /// Makes a change and takes it up here, in a task of its own: a client that hangs up must not
    /// leave it half done. If taking it up fails, the next poll of the settings does it, and the
    /// caller is not told that the change is in force.
    async fn set<F, T>(&self, change: impl FnOnce(Arc<dyn Store>) -> F) -> StoreResult<T>
    where
        F: Future<Output = StoreResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let changed = change(Arc::clone(&self.store));
        let (store, topics) = (Arc::clone(&self.store), Arc::clone(&self.topics));
        let waiters = Arc::clone(&self.waiters);
        let task = self.calls.spawn(async move {
            let reply = changed.await?;
            store.publish(Hint::Settings);
            topics.refresh(&*store, &waiters).await.map_err(|error| {
                tracing::warn!(%error, "failed to read the settings of topics; trying again");
                StoreError::unknown(format!("the settings of topics could not be read: {error}"))
            })?;
            Ok(reply)
        });
        task.await.unwrap_or_else(|_| Err(StoreError::unknown("the change panicked")))
    }

    /// Whether a topic hands out nothing, as this server knows it.
    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.topics.is_paused(topic)
    }

    /// The pause of a topic, as this server knows it.
    pub fn pause_of(&self, topic: &Topic) -> Option<Pause> {
        self.topics.current().paused.get(topic).copied()
    }

    /// The defaults for new jobs of a topic, as this server knows it.
    pub fn defaults(&self, topic: &Topic) -> PolicyFields {
        self.topics.current().defaults.get(topic).cloned().unwrap_or_default()
    }
}
