//! Pauses and defaults of topics in the file.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{
    FileStore, health::Need, machine::Write, pending::settings_after, writer_state::WriterState,
};
use crate::{
    job::{
        Millis, Pause, PolicyFields, Schedule, SettingsChanges, Topic, TopicChange, TopicSettings,
        UnixMillis,
    },
    store::{StoreError, StoreResult, TopicSettingsStore},
};

impl WriterState {
    /// Returns the settings of these topics, or of all, after the work so far.
    fn settings(&self, topics: Option<&BTreeSet<Topic>>) -> StoreResult<TopicSettings> {
        let read = match topics {
            Some(topics) => self.records.topics_of(topics),
            None => self.records.topics(),
        };
        Ok(settings_after(&self.writes, read.map_err(StoreError::unavailable)?))
    }

    fn change_settings(&mut self, topic: &Topic, change: Write) {
        self.settings_log.note(topic);
        self.writes.push(change);
    }
}

#[async_trait]
impl TopicSettingsStore for FileStore {
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        let pause = paused.then_some(Pause::OPEN);
        self.set(topic.clone(), Write::Pause { topic, pause }).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        let pause = move |writer: &mut WriterState| {
            let until = writer.now().end(end);
            let pause = Some(Pause { until: Some(until) });
            writer.change_settings(&topic.clone(), Write::Pause { topic, pause });
            Ok(until)
        };
        self.writer.call_with(Need::Growing, pause).await
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        let end = move |writer: &mut WriterState| {
            let left = until.since(writer.believed_now().floor);
            let pause = Pause { until: Some(until) };
            if left == Millis::ZERO {
                let settings = writer.settings(Some(&BTreeSet::from([topic.clone()])))?;
                if settings.paused.get(&topic) == Some(&pause) {
                    writer.change_settings(&topic.clone(), Write::Pause { topic, pause: None });
                }
            }
            Ok(left)
        };
        self.writer.call(end).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()> {
        let text = defaults.map(|defaults| serde_json::to_string(&defaults));
        let text = text.transpose().map_err(StoreError::unavailable)?;
        self.set(topic.clone(), Write::Defaults { topic, text }).await
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
            let TopicSettings { mut paused, mut defaults, .. } = writer.settings(Some(&changed))?;
            let change = |topic| TopicChange {
                pause: paused.remove(&topic),
                defaults: defaults.remove(&topic),
                topic,
            };
            let topics = changed.into_iter().map(change).collect();
            Ok(Some(SettingsChanges::Changed { version, topics }))
        };
        self.writer.read(read).await
    }
}

impl FileStore {
    async fn set(&self, topic: Topic, change: Write) -> StoreResult<()> {
        let write = move |writer: &mut WriterState| {
            writer.change_settings(&topic, change);
            Ok(())
        };
        self.writer.call_with(Need::Growing, write).await
    }
}
