//! What answers show of topics.

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::Defaults;
use crate::{
    job::{Millis, Pause, PolicyFields, Topic, UnixMillis},
    queue::Counters,
    store::{Counts, TopicPeek},
};

/// A topic.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TopicInList")]
pub struct TopicResponse {
    /// Its name.
    topic: Topic,
    /// How many jobs wait for their due time.
    delayed: u64,
    /// How many jobs may be popped.
    ready: u64,
    /// How many jobs consumers hold.
    reserved: u64,
    /// How many jobs are dead.
    dead: u64,
    /// Whether it hands out nothing.
    paused: bool,
    /// When the pause ends by itself; null if it does not.
    paused_until: Option<UnixMillis>,
    /// When the next delayed job is due; null without one.
    next_due_at: Option<UnixMillis>,
    /// For how many seconds the job that became due first has been waiting; null without a ready one.
    oldest_ready_age: Option<Millis>,
    /// What applies to new jobs that do not say. Only in the answer for one topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Defaults>")]
    defaults: Option<PolicyFields>,
    /// What this server has counted since it started. Not in lists of topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start: Option<Counters>,
}

impl TopicResponse {
    /// As a list shows it.
    pub fn in_list(topic: Topic, peek: &TopicPeek, pause: Option<Pause>) -> Self {
        let TopicPeek { counts, next_due_at, oldest_ready_age, .. } = *peek;
        let Counts { delayed, ready, reserved, dead } = counts;
        let (paused, paused_until) = (pause.is_some(), pause.and_then(|pause| pause.until));
        Self {
            topic,
            delayed,
            ready,
            reserved,
            dead,
            paused,
            paused_until,
            next_due_at,
            oldest_ready_age,
            defaults: None,
            since_start: None,
        }
    }

    /// The same with what this server has counted.
    pub fn counted(self, since_start: Counters) -> Self {
        Self { since_start: Some(since_start), ..self }
    }

    /// The same with what applies to new jobs that do not say.
    pub fn with_defaults(self, defaults: PolicyFields) -> Self {
        Self { defaults: Some(defaults), ..self }
    }
}

/// The answer to a pause or a resume.
#[derive(Serialize, JsonSchema)]
pub struct Paused {
    /// Which topic.
    pub topic: Topic,
    /// Whether it hands out nothing now.
    pub paused: bool,
    /// When the pause ends by itself; null if it does not.
    pub paused_until: Option<UnixMillis>,
}

/// Some topics; the cursor asks for those after them.
#[derive(Serialize, JsonSchema)]
pub struct TopicsPage {
    /// By name.
    pub topics: Vec<TopicResponse>,
    /// Of the next page; null on the last one.
    pub cursor: Option<Topic>,
}

/// How many delayed jobs fall due in each step.
#[derive(Serialize, JsonSchema)]
pub struct DueCounts {
    /// When the first step begins.
    pub from: UnixMillis,
    /// How many seconds each step is long.
    pub step: Millis,
    /// A number of jobs for each step.
    pub counts: Vec<u64>,
}

/// The answer to a purge.
#[derive(Serialize, JsonSchema)]
pub struct Purged {
    /// How many jobs were deleted.
    pub purged: u64,
}

/// The answer to a kick of many.
#[derive(Serialize, JsonSchema)]
pub struct Kicked {
    /// How many jobs became ready.
    pub kicked: u64,
}
