//! Topic settings in a store. Each is a text by topic and kind.

use async_trait::async_trait;

use super::StoreResult;
use crate::job::{
    Millis, Pause, PolicyFields, Schedule, Setting, SettingsChanges, Topic, UnixMillis,
};

/// Condition of a change of a setting. The step that makes the change checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingCondition {
    /// The change is always made.
    Always,
    /// The setting has this text now; `None` if it has none.
    Is(Option<String>),
    /// The `dead_to` of this topic does not lead to the topic of the setting, also not over others.
    /// So two servers cannot build a circle together.
    DoesNotLeadBack(Topic),
}

/// The part of a store that keeps topic settings.
#[async_trait]
pub trait TopicSettingsStore: Send + Sync {
    /// Sets or removes a setting. Returns whether the condition allowed it.
    async fn change_setting(
        &self,
        setting: Setting,
        condition: SettingCondition,
    ) -> StoreResult<bool>;

    /// Pauses a topic until a time, or for a span from now on; returns the end of the pause.
    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis>;

    /// Resumes a topic that is paused until `until`, if that time has been reached and its pause
    /// was not changed meanwhile. Returns the time left until `until`.
    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis>;

    /// Reads the topic settings that have changed since version `known`; none if there is no
    /// change. Returns all settings if too many have changed, or if the store does not know that
    /// version. No store knows version 0.
    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsChanges>>;

    /// Pauses or resumes a topic. Stores only keep the setting; the queue stops its pops.
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        let setting = Setting::pause(topic, paused.then_some(Pause::OPEN));
        self.change_setting(setting, SettingCondition::Always).await.map(drop)
    }

    /// Sets or removes the defaults of a topic for fields that new jobs leave out. Changes nothing
    /// and returns `false` if their `dead_to` leads back to the topic.
    async fn set_defaults(
        &self,
        topic: Topic,
        defaults: Option<PolicyFields>,
    ) -> StoreResult<bool> {
        let setting = Setting::defaults(topic, defaults.as_ref());
        let target = defaults.and_then(|defaults| defaults.dead_to);
        let condition = target.map_or(SettingCondition::Always, SettingCondition::DoesNotLeadBack);
        self.change_setting(setting, condition).await
    }
}
