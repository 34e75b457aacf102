//! Topic settings in a store: pause, and defaults for new jobs.

use async_trait::async_trait;

use super::StoreResult;
use crate::job::{Millis, PolicyFields, Schedule, SettingsChanges, Topic, UnixMillis};

/// The part of a store that keeps topic settings.
#[async_trait]
pub trait TopicSettingsStore: Send + Sync {
    /// Pauses or resumes a topic. Stores only keep the setting; the queue stops its pops.
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()>;

    /// Pauses a topic until a time, or for a span from now on; returns the end of the pause.
    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis>;

    /// Resumes a topic that is paused until `until` if that time has come, unless its pause was
    /// changed meanwhile. Returns the time left until `until`.
    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis>;

    /// Sets or removes the defaults of a topic for fields that new jobs leave out.
    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()>;

    /// Reads the topic settings that have changed since version `known`; none if none has. Returns
    /// all settings if too many have changed, or if the store does not know that version. It never
    /// knows version 0.
    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsChanges>>;
}
