//! The policy of a job: everything in its put except id, topic, body and time.
//!
//! A new field of a job belongs here: its value, default and text in a store, and how a put, a
//! change and the defaults of a topic set it. Stores keep the text as a whole ([`text`]).

mod fields;
mod schema_4;
mod text;

use serde::{Deserialize, Serialize};

use super::{backoff::Backoff, duration::Millis, headers::Headers, traceparent::TraceParent};

pub(crate) use self::schema_4::PolicyOfSchema4;
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
    /// The trace that the put belongs to; consumers receive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// Text for consumers.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
}

impl Policy {
    /// The policy that stores omit from a record. Persisted: it must never change. The defaults of
    /// the settings have the same values, but may change without it. Mirrored in
    /// `shared/policy.lua`.
    pub const STANDARD: Self = Self {
        ttr: Millis::new(60_000),
        max_attempts: 20,
        backoff: None,
        dead_retention: Millis::new(14 * 86_400_000),
        finished_retention: Millis::ZERO,
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
            ..Self::STANDARD
        }
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
