//! Topic settings in a store: pause, and defaults for new jobs.

use async_trait::async_trait;

use super::StoreResult;
use crate::job::{Millis, PolicyFields, Schedule, SettingsNews, Topic, UnixMillis};

/// The part of a store that keeps topic settings.
#[async_trait]
pub trait TopicSettingsStore: Send + Sync {
    /// A paused topic hands out nothing; it stays so until it is resumed. Stores only keep this
    /// word: the queue obeys it.
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()>;

    /// Pauses a topic until a time, or for a span from now on; replies when that ends.
    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis>;

    /// Resumes a topic that is paused until `until`, once that time has come, unless its pause was
    /// changed since. Replies how far that time is.
    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis>;

    /// Sets, or takes away, what applies to new jobs of a topic that do not say.
    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()>;

    /// Reads what has changed of the settings of topics since version `known`; none if nothing has.
    /// A store of several servers answers what has changed, unless that is too much or it does not
    /// know that version (0 is known to none): then it is everything.
    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>>;
}
