//! Settings of a topic: a pause, defaults for new jobs, and a push.

use std::sync::Arc;

use tokio::sync::watch;

use super::service::Queue;
use crate::{
    job::{Millis, Pause, PolicyFields, Push, Schedule, Setting, Topic, UnixMillis},
    store::{Hint, Servers, SettingCondition, Store, StoreError, StoreResult},
};

/// Number of changes of a push that are made only if no other server has changed it.
const MAX_TRIES: u32 = 5;

impl Queue {
    /// Pauses or resumes a topic: on this server at once, on others as soon as they receive the
    /// hint, and within eight times `timer.poll_interval` if they do not.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.set(|store| async move { store.set_paused(topic, paused).await }).await
    }

    /// Pauses a topic for a time and returns when the pause ends. Any server of the store ends it.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn pause_for(&self, topic: Topic, span: Millis) -> StoreResult<UnixMillis> {
        self.set(|store| async move { store.pause_until(topic, Schedule::In(span)).await }).await
    }

    /// Sets the defaults for new jobs of a topic; empty `defaults` remove them. Returns `false` and
    /// changes nothing if their `dead_to` leads back to the topic.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn set_defaults(&self, topic: Topic, defaults: PolicyFields) -> StoreResult<bool> {
        let defaults = Some(defaults).filter(|defaults| *defaults != PolicyFields::default());
        self.set(|store| async move { store.set_defaults(topic, defaults).await }).await
    }

    /// Makes a change and refreshes the cached settings, in a task of its own: a client that
    /// disconnects must not leave the change half done. If the refresh fails, the caller gets an
    /// error of unknown effect, and the next reading of the settings applies the change.
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

    /// Returns the running servers of the store, and which of them this one is; `None` if the store
    /// is not shared. See [`SharedStore::servers`](crate::store::SharedStore::servers).
    pub fn servers(&self) -> Option<Option<Servers>> {
        Some(self.store.shared()?.servers())
    }

    /// Changes the push of a topic and returns the new one; `None` removes it. If another server
    /// changes it at the same time, `change` is called again with its push.
    ///
    /// # Errors
    /// Any error of the store, or the refusal of `change`.
    pub async fn change_push<E: From<StoreError>>(
        &self,
        topic: &Topic,
        mut change: impl FnMut(Option<&Push>) -> Result<Option<Push>, E>,
    ) -> Result<Option<Push>, E> {
        let mut tries = 0;
        loop {
            let old = self.push_of(topic);
            let new = change(old.as_deref())?;
            let setting = Setting::push(topic.clone(), new.as_ref());
            // A text that another version of the server wrote may not equal that of this version.
            let condition = match tries < MAX_TRIES {
                true => SettingCondition::Is(Setting::push(topic.clone(), old.as_deref()).text),
                false => SettingCondition::Always,
            };
            let set = |store: Arc<dyn Store>| async move {
                store.change_setting(setting, condition).await
            };
            if self.set(set).await? {
                return Ok(new);
            }
            tries += 1;
        }
    }

    /// Returns the push of a topic from the cached settings.
    pub fn push_of(&self, topic: &Topic) -> Option<Arc<Push>> {
        self.topics.current().pushes.get(topic).cloned()
    }

    /// Returns the pushes of all topics from the cached settings.
    pub fn pushes(&self) -> Vec<(Topic, Arc<Push>)> {
        let settings = self.topics.current();
        settings.pushes.iter().map(|(topic, push)| (topic.clone(), Arc::clone(push))).collect()
    }

    /// Returns a receiver that is notified when the cached settings change.
    pub fn settings_changes(&self) -> watch::Receiver<u64> {
        self.topics.changes()
    }

    /// Returns whether this server considers the topic paused.
    pub fn is_paused(&self, topic: &Topic) -> bool {
        self.topics.is_paused(topic)
    }

    /// Returns the pause of a topic from the cached settings.
    pub fn pause_of(&self, topic: &Topic) -> Option<Pause> {
        self.topics.current().paused.get(topic).copied()
    }

    /// Returns the defaults for new jobs of a topic from the cached settings.
    pub fn defaults(&self, topic: &Topic) -> PolicyFields {
        self.topics.current().defaults.get(topic).cloned().unwrap_or_default()
    }
}
