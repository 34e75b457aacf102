//! Pauses and defaults of topics.

use std::sync::{Arc, atomic::Ordering};

use super::{FileStore, machine::Write, writer::WriterState};
use crate::{
    job::{Millis, Pause, Schedule, SettingsNews, Topic, TopicDefaults, TopicSettings, UnixMillis},
    store::{StoreError, StoreResult},
};

impl FileStore {
    /// Changes a topic's settings. No other process can: the version need not be on disk.
    pub async fn set(&self, change: Write) -> StoreResult<()> {
        let version = Arc::clone(&self.settings_version);
        let write = move |writer: &mut WriterState| {
            writer.writes.push(change);
            version.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        self.writer.call(write).await
    }

    /// See [`Store::pause_until`](crate::store::Store::pause_until).
    pub async fn begin_pause(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        let version = Arc::clone(&self.settings_version);
        let pause = move |writer: &mut WriterState| {
            let until = writer.now().end(end);
            let pause = Some(Pause { until: Some(until) });
            writer.writes.push(Write::Pause { topic, pause });
            version.fetch_add(1, Ordering::SeqCst);
            Ok(until)
        };
        self.writer.call(pause).await
    }

    /// See [`Store::end_pause`](crate::store::Store::end_pause).
    pub async fn end_of_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        let version = Arc::clone(&self.settings_version);
        let end = move |writer: &mut WriterState| {
            let left = until.since(writer.believed_now().floor);
            let pause = Pause { until: Some(until) };
            if left == Millis::ZERO
                && writer.settings().map_err(StoreError::away)?.paused.get(&topic) == Some(&pause)
            {
                writer.writes.push(Write::Pause { topic, pause: None });
                version.fetch_add(1, Ordering::SeqCst);
            }
            Ok(left)
        };
        self.writer.call(end).await
    }

    /// See [`Store::set_defaults`](crate::store::Store::set_defaults).
    pub async fn write_defaults(
        &self,
        topic: Topic,
        defaults: Option<TopicDefaults>,
    ) -> StoreResult<()> {
        let text = defaults.map(|defaults| serde_json::to_string(&defaults));
        let text = text.transpose().map_err(StoreError::away)?;
        self.set(Write::Defaults { topic, text }).await
    }

    /// See [`Store::settings`](crate::store::Store::settings).
    pub async fn read_settings(&self, known: u64) -> StoreResult<Option<SettingsNews>> {
        let current = Arc::clone(&self.settings_version);
        let read = move |writer: &mut WriterState| {
            let version = current.load(Ordering::SeqCst);
            if version == known {
                return Ok(None);
            }
            let settings = writer.settings().map_err(StoreError::away)?;
            // Everything: only this process reads it, and only after a change of its own.
            Ok(Some(SettingsNews::All(TopicSettings { version, ..settings })))
        };
        self.writer.read(read).await
    }
}
