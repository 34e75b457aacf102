//! Fields of a policy that a put, a change or the defaults of a topic set.

use serde::{Deserialize, Serialize};

use super::Policy;
use crate::job::{
    backoff::Backoff, duration::Millis, headers::Headers, priority::Priority, time::UnixMillis,
    topic::Topic, traceparent::TraceParent,
};

/// Fields of a policy; one that is `None` was not given.
///
/// The defaults of a topic are stored as this JSON: names must stay stable. Fields that topics
/// cannot have as defaults are skipped there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PolicyFields {
    /// How long a consumer may hold the job.
    pub ttr: Option<Millis>,
    /// Attempts before a job is dead; 0 means no limit.
    pub max_attempts: Option<u32>,
    /// The wait before the next attempt; the inner `None` means no wait.
    pub backoff: Option<Option<Backoff>>,
    /// How long a dead job is kept.
    pub dead_retention: Option<Millis>,
    /// How long a finished job is kept; zero means not at all.
    pub finished_retention: Option<Millis>,
    /// Ready jobs of a higher priority are popped first.
    pub priority: Option<Priority>,
    /// How long after its due time a job expires; the inner `None` means never.
    pub expires_after: Option<Option<Millis>>,
    /// When the job expires; only a store sets it.
    #[serde(skip)]
    pub expires_at: Option<UnixMillis>,
    /// The topic to which a job moves when it dies; only the defaults of a topic set it.
    pub dead_to: Option<Topic>,
    /// The topic that a dead job leaves; only a store sets it. Removes expiry and `dead_to`.
    #[serde(skip)]
    pub dead_from: Option<Topic>,
    /// The instant of the schedule that puts the job.
    #[serde(skip)]
    pub scheduled_at: Option<UnixMillis>,
    /// The trace that the put belongs to.
    #[serde(skip)]
    pub traceparent: Option<TraceParent>,
    /// Names and values for consumers; empty headers remove those of the job.
    #[serde(skip)]
    pub headers: Option<Headers>,
}

impl PolicyFields {
    /// Fills in missing fields, first from the topic's defaults, then from the server's. A list of
    /// waits implies the number of attempts, unless the put or the topic sets it.
    pub fn or_defaults(self, topic: Option<&Self>, server: &Policy) -> Policy {
        let of_topic = topic.cloned().unwrap_or_default();
        let backoff = self.backoff.flatten().or(of_topic.backoff.flatten());
        let implied = backoff.as_ref().and_then(Backoff::attempts);
        let max_attempts = self.max_attempts.or(of_topic.max_attempts).or(implied);
        Policy {
            ttr: self.ttr.or(of_topic.ttr).unwrap_or(server.ttr),
            max_attempts: max_attempts.unwrap_or(server.max_attempts),
            backoff,
            dead_retention: self
                .dead_retention
                .or(of_topic.dead_retention)
                .unwrap_or(server.dead_retention),
            finished_retention: self
                .finished_retention
                .or(of_topic.finished_retention)
                .unwrap_or(server.finished_retention),
            priority: self.priority.or(of_topic.priority).unwrap_or(server.priority),
            expires_after: self.expires_after.flatten().or(of_topic.expires_after.flatten()),
            expires_at: None,
            dead_to: of_topic.dead_to,
            dead_from: None,
            scheduled_at: self.scheduled_at,
            traceparent: self.traceparent,
            headers: self.headers.unwrap_or_default(),
        }
    }
}

impl Policy {
    /// Sets the given fields. A new list of waits also sets the limit of attempts, if the current
    /// limit equals the one that the previous list implied and no limit is given. A different limit
    /// stays.
    pub fn set(&mut self, fields: PolicyFields) {
        let derived = self.backoff.as_ref().and_then(Backoff::attempts) == Some(self.max_attempts);
        let implied = fields.backoff.iter().flatten().find_map(Backoff::attempts);
        let max_attempts = fields.max_attempts.or(implied.filter(|_| derived));
        self.ttr = fields.ttr.unwrap_or(self.ttr);
        self.max_attempts = max_attempts.unwrap_or(self.max_attempts);
        if let Some(backoff) = fields.backoff {
            self.backoff = backoff;
        }
        self.dead_retention = fields.dead_retention.unwrap_or(self.dead_retention);
        self.finished_retention = fields.finished_retention.unwrap_or(self.finished_retention);
        self.priority = fields.priority.unwrap_or(self.priority);
        self.expires_after = fields.expires_after.unwrap_or(self.expires_after);
        self.expires_at = self.expires_after.and_then(|_| fields.expires_at.or(self.expires_at));
        self.scheduled_at = fields.scheduled_at.or(self.scheduled_at);
        self.traceparent = fields.traceparent.or(self.traceparent);
        if let Some(headers) = fields.headers {
            self.headers = headers;
        }
        if fields.dead_from.is_some() {
            self.dead_from = fields.dead_from;
            (self.dead_to, self.expires_after, self.expires_at) = (None, None, None);
        }
    }
}
