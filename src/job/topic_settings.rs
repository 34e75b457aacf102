//! Settings of topics: pauses, and defaults for new jobs.

use std::collections::HashMap;

use super::{policy::PolicyFields, time::UnixMillis, topic::Topic};

/// A pause of a topic: its jobs cannot be popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When the pause ends by itself; `None` if only a resume ends it.
    pub until: Option<UnixMillis>,
}

impl Pause {
    /// A pause without an end.
    pub const OPEN: Self = Self { until: None };

    /// Returns the stored form: the end in Unix milliseconds, or 1 without one. Must stay stable.
    pub fn to_stored(self) -> u64 {
        self.until.map_or(1, |until| until.get().max(2))
    }

    /// Parses the stored form; 0 means no pause.
    pub fn from_stored(number: u64) -> Option<Self> {
        match number {
            0 => None,
            1 => Some(Self::OPEN),
            until => Some(Self { until: Some(UnixMillis::new(until)) }),
        }
    }
}

/// The settings of all topics.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicSettings {
    /// Version of the settings, which grows with every change.
    pub version: u64,
    /// Paused topics.
    pub paused: HashMap<Topic, Pause>,
    /// Topics with defaults of their own.
    pub defaults: HashMap<Topic, PolicyFields>,
}

/// Changes of topic settings since some version.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsChanges {
    /// All settings, which replace the known ones.
    All(TopicSettings),
    /// The current settings of these topics; all others are unchanged.
    Changed {
        /// The version after these changes.
        version: u64,
        /// The changed topics, each once.
        topics: Vec<TopicChange>,
    },
}

/// New settings of a changed topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicChange {
    /// The topic.
    pub topic: Topic,
    /// Pause of the topic, if it is paused.
    pub pause: Option<Pause>,
    /// Defaults of the topic, if it has any.
    pub defaults: Option<PolicyFields>,
}

impl TopicSettings {
    /// Applies changes since [`version`](Self::version); returns the topics no longer paused.
    pub fn apply(&mut self, changes: SettingsChanges) -> Vec<Topic> {
        match changes {
            SettingsChanges::All(all) => {
                let old = std::mem::replace(self, all);
                let is_resumed = |topic: &Topic| !self.paused.contains_key(topic);
                old.paused.into_keys().filter(is_resumed).collect()
            }
            SettingsChanges::Changed { version, topics } => {
                self.version = version;
                topics.into_iter().filter_map(|change| self.apply_one(change)).collect()
            }
        }
    }

    /// Applies one change; returns the topic if it is no longer paused.
    fn apply_one(&mut self, change: TopicChange) -> Option<Topic> {
        let TopicChange { topic, pause, defaults } = change;
        match defaults {
            Some(defaults) => drop(self.defaults.insert(topic.clone(), defaults)),
            None => drop(self.defaults.remove(&topic)),
        }
        if let Some(pause) = pause {
            self.paused.insert(topic, pause);
            return None;
        }
        self.paused.remove_entry(&topic).map(|(topic, _)| topic)
    }
}
