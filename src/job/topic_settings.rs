//! What an operator sets for a topic.

use std::collections::HashMap;

use super::{policy::PolicyFields, time::UnixMillis, topic::Topic};

/// A topic hands out nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When it ends by itself; without a time it lasts until the topic is resumed.
    pub until: Option<UnixMillis>,
}

impl Pause {
    /// Without an end.
    pub const OPEN: Self = Self { until: None };

    /// As stores keep it: 1 without an end, else the end in Unix milliseconds. Must stay stable.
    pub fn number(self) -> u64 {
        self.until.map_or(1, |until| until.get().max(2))
    }

    /// Of a number that a store has kept; 0 is no pause.
    pub fn of_number(number: u64) -> Option<Self> {
        match number {
            0 => None,
            1 => Some(Self::OPEN),
            until => Some(Self { until: Some(UnixMillis::new(until)) }),
        }
    }
}

/// All that is set, for all topics.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicSettings {
    /// Grows with every change.
    pub version: u64,
    /// Topics that hand out nothing.
    pub paused: HashMap<Topic, Pause>,
    /// Topics with defaults of their own.
    pub defaults: HashMap<Topic, PolicyFields>,
}

/// What has become of the settings of topics since a version of them.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsNews {
    /// All that is set; nothing else is.
    All(TopicSettings),
    /// The settings of these topics now. All others are as they were.
    Changed {
        /// The version after these changes.
        version: u64,
        /// Each topic once.
        topics: Vec<TopicChange>,
    },
}

/// The settings of one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicChange {
    /// Which.
    pub topic: Topic,
    /// It hands out nothing.
    pub pause: Option<Pause>,
    /// Its own defaults, if it has any.
    pub defaults: Option<PolicyFields>,
}

impl TopicSettings {
    /// Applies the changes since [`version`](Self::version); answers the topics that are not paused any more.
    pub fn take(&mut self, changes: SettingsNews) -> Vec<Topic> {
        match changes {
            SettingsNews::All(all) => {
                let old = std::mem::replace(self, all);
                let is_resumed = |topic: &Topic| !self.paused.contains_key(topic);
                old.paused.into_keys().filter(is_resumed).collect()
            }
            SettingsNews::Changed { version, topics } => {
                self.version = version;
                topics.into_iter().filter_map(|change| self.change(change)).collect()
            }
        }
    }

    /// Answers the topic if it is not paused any more.
    fn change(&mut self, change: TopicChange) -> Option<Topic> {
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
