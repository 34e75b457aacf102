//! The policy of a job: everything in its put except id, topic, body and time.
//!
//! A new field of a job belongs here: its value, default and text in a store, and how a put, a
//! change and the defaults of a topic set it. Stores keep the text as a whole ([`text`]).

mod fields;
mod text;

use serde::{Deserialize, Serialize};

use super::{
    backoff::Backoff, duration::Millis, headers::Headers, priority::Priority, time::UnixMillis,
    topic::Topic, traceparent::TraceParent,
};

pub use self::{fields::PolicyFields, text::PolicyError};

/// The fields of a put except id, topic, body and time.
///
/// Exports contain this as JSON: names must stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// How long a consumer may hold the job.
    #[serde(rename = "ttr_ms", with = "millis")]
    pub ttr: Millis,
    /// Attempts before the job is dead; 0 means no limit.
    pub max_attempts: u32,
    /// The wait before the next attempt; `None` means no wait.
    #[serde(default, with = "backoff_text", skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// How long a dead job is kept.
    #[serde(rename = "dead_retention_ms", with = "millis")]
    pub dead_retention: Millis,
    /// How long a finished job is kept; zero means not at all.
    #[serde(
        default,
        rename = "finished_retention_ms",
        with = "millis",
        skip_serializing_if = "Millis::is_zero"
    )]
    pub finished_retention: Millis,
    /// Ready jobs of a higher priority are popped first.
    #[serde(default, skip_serializing_if = "Priority::is_standard")]
    pub priority: Priority,
    /// How long after its due time the job expires; `None` means never. The due time is that of the
    /// put, or of the last reschedule or kick that moved `expires_at`.
    #[serde(
        default,
        rename = "expires_after_ms",
        with = "some_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_after: Option<Millis>,
    /// When the job expires, in Unix milliseconds. The store sets it, because only the store knows
    /// the due time.
    #[serde(default, with = "some_time", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<UnixMillis>,
    /// The topic to which the job moves when it dies; `None` means that it stays. Only the defaults
    /// of a topic set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_to: Option<Topic>,
    /// The topic in which the job died before it moved. Only stores set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_from: Option<Topic>,
    /// The instant of the schedule that put the job; only schedules set it.
    #[serde(default, with = "some_time", skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<UnixMillis>,
    /// The trace that the put belongs to; consumers receive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// Names and values that the put attaches for consumers.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
}

impl Policy {
    /// The values that stores omit from a record, so they must never change. The defaults in the
    /// settings are equal today, but they may change. `shared/policy.lua` mirrors some of them.
    pub const STANDARD: Self = Self {
        ttr: Millis::new(60_000),
        max_attempts: 20,
        backoff: None,
        dead_retention: Millis::new(14 * 86_400_000),
        finished_retention: Millis::ZERO,
        priority: Priority::STANDARD,
        expires_after: None,
        expires_at: None,
        dead_to: None,
        dead_from: None,
        scheduled_at: None,
        traceparent: None,
        headers: Headers::NONE,
    };

    /// Returns the fields that affect transitions, with all others at their standard values.
    #[must_use]
    pub fn decisive(self) -> Self {
        Self {
            ttr: self.ttr,
            max_attempts: self.max_attempts,
            backoff: self.backoff,
            dead_retention: self.dead_retention,
            finished_retention: self.finished_retention,
            priority: self.priority,
            expires_after: self.expires_after,
            expires_at: self.expires_at,
            dead_to: self.dead_to,
            dead_from: self.dead_from,
            ..Self::STANDARD
        }
    }

    /// Sets when the job expires, counted from this due time.
    pub fn expire_from(&mut self, due_at: UnixMillis) {
        self.expires_at = self.expires_after.map(|after| due_at.after(after));
    }

    /// Returns the topic to which a job of this topic moves when it dies.
    pub fn dead_to(&self, topic: &Topic) -> Option<&Topic> {
        self.dead_to.as_ref().filter(|target| *target != topic)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// Durations in milliseconds, while clients use seconds.
mod millis {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::job::duration::Millis;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub fn serialize<S: Serializer>(span: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(span.get())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
        u64::deserialize(deserializer).map(Millis::new)
    }
}

/// Optional durations in milliseconds.
mod some_millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::job::duration::Millis;

    #[expect(clippy::ref_option, reason = "serde passes references")]
    pub fn serialize<S: Serializer>(
        span: &Option<Millis>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(Millis::get).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Millis>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Millis::new))
    }
}

/// Optional times in Unix milliseconds, while clients use RFC 3339.
mod some_time {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::job::time::UnixMillis;

    #[expect(clippy::ref_option, reason = "serde passes references")]
    pub fn serialize<S: Serializer>(
        time: &Option<UnixMillis>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(UnixMillis::get).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<UnixMillis>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(UnixMillis::new))
    }
}

/// The form of a backoff in stores, while clients use lists and objects.
mod backoff_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::job::backoff::Backoff;

    #[expect(clippy::ref_option, reason = "serde passes references")]
    pub fn serialize<S: Serializer>(
        backoff: &Option<Backoff>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        backoff.as_ref().map(Backoff::to_string).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Backoff>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parse = |text: String| {
            text.parse().map_err(|error| D::Error::custom(format!("`backoff` {error}")))
        };
        text.map(parse).transpose()
    }
}
