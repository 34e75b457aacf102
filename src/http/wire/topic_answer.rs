//! Topics in answers.

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
    /// Name of the topic.
    topic: Topic,
    /// Number of jobs that wait for their due time.
    delayed: u64,
    /// Number of jobs that may be popped.
    ready: u64,
    /// Number of jobs that consumers hold.
    reserved: u64,
    /// Number of dead jobs.
    dead: u64,
    /// Number of jobs that are kept after their end.
    finished: u64,
    /// Whether deliveries are stopped.
    paused: bool,
    /// When the pause ends by itself; null if it does not.
    paused_until: Option<UnixMillis>,
    /// When the next delayed job is due; null if there is none.
    next_due_at: Option<UnixMillis>,
    /// Age in seconds of the oldest ready job, from its due time; null if there is none.
    oldest_ready_age: Option<Millis>,
    /// Whether the topic has a push, also a paused one. Lists omit it if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    push: Option<bool>,
    /// Defaults for new jobs. Only in the answer for one topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Defaults>")]
    defaults: Option<PolicyFields>,
    /// Counters of this server since it started. Not in lists of topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start: Option<Counters>,
}

impl TopicResponse {
    /// Shows a topic as in a list.
    pub fn in_list(topic: Topic, peek: &TopicPeek, pause: Option<Pause>) -> Self {
        let TopicPeek { counts, next_due_at, oldest_ready_age, .. } = *peek;
        let Counts { delayed, ready, reserved, dead, finished } = counts;
        let (paused, paused_until) = (pause.is_some(), pause.and_then(|pause| pause.until));
        Self {
            topic,
            delayed,
            ready,
            reserved,
            dead,
            finished,
            paused,
            paused_until,
            next_due_at,
            oldest_ready_age,
            push: None,
            defaults: None,
            since_start: None,
        }
    }

    pub fn counted(self, since_start: Counters) -> Self {
        Self { since_start: Some(since_start), ..self }
    }

    pub fn with_push(self, push: Option<bool>) -> Self {
        Self { push, ..self }
    }

    pub fn with_defaults(self, defaults: PolicyFields) -> Self {
        Self { defaults: Some(defaults), ..self }
    }
}

/// Answer to a pause or a resume.
#[derive(Serialize, JsonSchema)]
pub struct Paused {
    /// The topic.
    pub topic: Topic,
    /// Whether deliveries are stopped now.
    pub paused: bool,
    /// When the pause ends by itself; null if it does not.
    pub paused_until: Option<UnixMillis>,
}

/// Page of a list of topics.
#[derive(Serialize, JsonSchema)]
pub struct TopicsPage {
    /// Topics, ordered by name.
    pub topics: Vec<TopicResponse>,
    /// Cursor of the next page; null on the last one.
    pub cursor: Option<Topic>,
}

/// Number of delayed jobs that become due in each step of time.
#[derive(Serialize, JsonSchema)]
pub struct DueCounts {
    /// When the first step begins.
    pub from: UnixMillis,
    /// Length of a step in seconds.
    pub step: Millis,
    /// Number of jobs for each step.
    pub counts: Vec<u64>,
}

/// Answer to a purge.
#[derive(Serialize, JsonSchema)]
pub struct Purged {
    /// Number of deleted jobs; for a dry run, of jobs that would be deleted.
    pub purged: u64,
    /// Whether there may be more such jobs: the purge has ended early.
    pub more: bool,
    /// Present if jobs were only counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Answer to a kick of a topic.
#[derive(Serialize, JsonSchema)]
pub struct Kicked {
    /// Number of jobs that became ready; for a dry run, of jobs that would.
    pub kicked: u64,
    /// Whether there may be more such jobs.
    pub more: bool,
    /// Present if jobs were only counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}
