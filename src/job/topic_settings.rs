//! What an operator sets for a topic.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{backoff::Backoff, duration::Millis, topic::Topic};

/// What applies to jobs of a topic that do not say; what is `None` is the server's default.
/// Stored as JSON: names must stay stable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TopicDefaults {
    /// How long a consumer has.
    pub ttr: Option<Millis>,
    /// Attempts before a job is dead; 0 is no limit.
    pub max_attempts: Option<u32>,
    /// The wait before the next attempt.
    pub backoff: Option<Backoff>,
    /// How long a dead job is kept.
    pub dead_retention: Option<Millis>,
}

/// All that is set, for all topics.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopicSettings {
    /// Grows with every change.
    pub version: u64,
    /// Topics that hand out nothing.
    pub paused: HashSet<Topic>,
    /// Topics with defaults of their own.
    pub defaults: HashMap<Topic, TopicDefaults>,
}
