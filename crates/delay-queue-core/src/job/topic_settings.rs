//! Settings of topics: pauses, defaults for new jobs, and pushes.

use std::{collections::HashMap, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

use super::{policy::PolicyFields, push::Push, time::UnixMillis, topic::Topic};

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
    /// Topics whose jobs are pushed.
    pub pushes: HashMap<Topic, Arc<Push>>,
}

/// Kind of a topic setting. A store keeps one text for each topic and kind, and does not know its
/// form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettingKind {
    /// The pause of the topic.
    Pause,
    /// Defaults for new jobs.
    Defaults,
    /// Push of the topic.
    Push,
}

impl SettingKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Pause, Self::Defaults, Self::Push];

    /// Returns the stored name. Must stay stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Defaults => "defaults",
            Self::Push => "push",
        }
    }
}

/// A setting of a topic as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The topic.
    pub topic: Topic,
    /// Determines the form of the text.
    pub kind: SettingKind,
    /// The stored text; `None` if the topic does not have the setting.
    pub text: Option<String>,
}

impl Setting {
    /// The pause of a topic.
    pub fn pause(topic: Topic, pause: Option<Pause>) -> Self {
        let text = pause.map(|pause| pause.to_stored().to_string());
        Self { topic, kind: SettingKind::Pause, text }
    }

    /// The defaults of a topic for new jobs, stored as JSON.
    pub fn defaults(topic: Topic, defaults: Option<&PolicyFields>) -> Self {
        Self { topic, kind: SettingKind::Defaults, text: defaults.map(json) }
    }

    /// The push of a topic, stored as JSON.
    pub fn push(topic: Topic, push: Option<&Push>) -> Self {
        Self { topic, kind: SettingKind::Push, text: push.map(json) }
    }
}

/// Changes of topic settings since some version.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsChanges {
    /// All settings, which replace the known ones.
    All(TopicSettings),
    /// The current settings of the changed topics, one of each kind; other topics are unchanged.
    Changed {
        /// The version after these changes.
        version: u64,
        /// The settings.
        settings: Vec<Setting>,
    },
}

/// Maximum length of a chain of topics, each the `dead_to` of the one before. Mirrored in
/// `set_topic.lua`.
const MAX_DEAD_TO: usize = 1_000;

impl TopicSettings {
    /// Returns whether the chain of `dead_to` topics that begins at `target` contains `topic`. A
    /// chain that is too long counts as if it did.
    pub fn leads_to(&self, target: &Topic, topic: &Topic) -> bool {
        let next = |from: &&Topic| self.defaults.get(*from)?.dead_to.as_ref();
        let mut row = std::iter::successors(Some(target), next).enumerate();
        row.any(|(number, at)| at == topic || number == MAX_DEAD_TO)
    }

    /// Applies changes since [`version`](Self::version); returns the topics no longer paused.
    pub fn apply(&mut self, changes: SettingsChanges) -> Vec<Topic> {
        match changes {
            SettingsChanges::All(all) => {
                let old = std::mem::replace(self, all);
                let is_resumed = |topic: &Topic| !self.paused.contains_key(topic);
                old.paused.into_keys().filter(is_resumed).collect()
            }
            SettingsChanges::Changed { version, settings } => {
                self.version = version;
                settings.into_iter().filter_map(|setting| self.apply_one(setting)).collect()
            }
        }
    }

    /// Applies one change; returns the topic if it is no longer paused.
    fn apply_one(&mut self, setting: Setting) -> Option<Topic> {
        let was_paused = self.paused.contains_key(&setting.topic);
        let topic = setting.topic.clone();
        self.set(setting);
        Some(topic).filter(|topic| was_paused && !self.paused.contains_key(topic))
    }

    /// Sets or removes a setting. An unreadable pause has no end; other unreadable texts count as
    /// none and are logged.
    pub fn set(&mut self, setting: Setting) {
        let Setting { topic, kind, text } = setting;
        match kind {
            SettingKind::Pause => {
                let parse =
                    |text: String| text.parse().map_or(Some(Pause::OPEN), Pause::from_stored);
                replace(&mut self.paused, topic, text.and_then(parse));
            }
            SettingKind::Defaults => {
                let defaults = text.and_then(|text| parse(&topic, kind, &text));
                replace(&mut self.defaults, topic, defaults);
            }
            SettingKind::Push => {
                let push = text.and_then(|text| parse(&topic, kind, &text));
                replace(&mut self.pushes, topic, push.map(Arc::new));
            }
        }
    }

    /// Returns a setting of a topic.
    pub fn get(&self, topic: &Topic, kind: SettingKind) -> Setting {
        let name = topic.clone();
        match kind {
            SettingKind::Pause => Setting::pause(name, self.paused.get(topic).copied()),
            SettingKind::Defaults => Setting::defaults(name, self.defaults.get(topic)),
            SettingKind::Push => Setting::push(name, self.pushes.get(topic).map(|push| &**push)),
        }
    }
}

fn replace<T>(settings: &mut HashMap<Topic, T>, topic: Topic, value: Option<T>) {
    match value {
        Some(value) => drop(settings.insert(topic, value)),
        None => drop(settings.remove(&topic)),
    }
}

/// Writes the stored form of a setting.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("fields with plain names")
}

/// Parses a stored setting in JSON.
fn parse<T: DeserializeOwned>(topic: &Topic, kind: SettingKind, text: &str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            let kind = kind.name();
            tracing::error!(%topic, kind, %error, "skipped an unreadable setting of a topic");
            None
        }
    }
}
