//! Settings of topics in the file.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{
    FileStore, health::Need, machine::Write, pending::settings_after, writer_state::WriterState,
};
use crate::{
    job::{
        Millis, Pause, Schedule, Setting, SettingKind, SettingsChanges, Topic, TopicSettings,
        UnixMillis,
    },
    store::{SettingCondition, StoreError, StoreResult, TopicSettingsStore},
};

impl WriterState {
    /// Returns the settings of these topics, or of all topics, including the changes of this batch.
    fn settings(&self, topics: Option<&BTreeSet<Topic>>) -> StoreResult<TopicSettings> {
        let read = match topics {
            Some(topics) => self.records.topics_of(topics),
            None => self.records.topics(),
        };
        Ok(settings_after(&self.writes, read.map_err(StoreError::unavailable)?))
    }

    fn change_setting(&mut self, setting: Setting) {
        self.settings_log.note(&setting.topic);
        self.writes.push(Write::Setting(setting));
    }

    /// Returns whether a condition of a change holds now.
    fn holds(&self, setting: &Setting, condition: SettingCondition) -> StoreResult<bool> {
        Ok(match condition {
            SettingCondition::Always => true,
            SettingCondition::Is(text) => {
                let settings = self.settings(Some(&BTreeSet::from([setting.topic.clone()])))?;
                settings.get(&setting.topic, setting.kind).text == text
            }
            SettingCondition::DoesNotLeadBack(target) => {
                !self.settings(None)?.leads_to(&target, &setting.topic)
            }
        })
    }
}

#[async_trait]
impl TopicSettingsStore for FileStore {
    async fn change_setting(
        &self,
        setting: Setting,
        condition: SettingCondition,
    ) -> StoreResult<bool> {
        let change = move |writer: &mut WriterState| {
            let holds = writer.holds(&setting, condition)?;
            if holds {
                writer.change_setting(setting);
            }
            Ok(holds)
        };
        self.writer.call_with(Need::Growing, change).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        let pause = move |writer: &mut WriterState| {
            let until = writer.now().end(end);
            writer.change_setting(Setting::pause(topic, Some(Pause { until: Some(until) })));
            Ok(until)
        };
        self.writer.call_with(Need::Growing, pause).await
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        let end = move |writer: &mut WriterState| {
            let left = until.since(writer.believed_now().floor);
            let text = Pause { until: Some(until) }.to_stored().to_string();
            let resumed = Setting::pause(topic, None);
            if left == Millis::ZERO && writer.holds(&resumed, SettingCondition::Is(Some(text)))? {
                writer.change_setting(resumed);
            }
            Ok(left)
        };
        self.writer.call(end).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsChanges>> {
        let read = move |writer: &mut WriterState| {
            let version = writer.settings_log.version();
            if version == known {
                return Ok(None);
            }
            let Some(changed) = writer.settings_log.since(known) else {
                let settings = writer.settings(None)?;
                return Ok(Some(SettingsChanges::All(TopicSettings { version, ..settings })));
            };
            let all = writer.settings(Some(&changed))?;
            let of = |topic| SettingKind::ALL.map(|kind| all.get(topic, kind));
            let settings = changed.iter().flat_map(of).collect();
            Ok(Some(SettingsChanges::Changed { version, settings }))
        };
        self.writer.read(read).await
    }
}
