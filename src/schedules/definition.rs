//! Definitions of schedules, as clients set them.

use std::time::Duration;

use recurrence::{Fields, Invalid, Timing};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::job::{Headers, Millis, PolicyFields, Topic, TraceParent, UnixMillis};

/// Definition of a schedule as stores keep it, in JSON: names and values must stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The topic of its jobs.
    pub topic: Topic,
    /// When its jobs are put.
    #[serde(flatten)]
    pub timing: TimingFields,
    /// Longest time from an instant to the due time of its job.
    #[serde(default, skip_serializing_if = "Millis::is_zero")]
    pub jitter: Millis,
    /// Behaviour at an instant at which the last job has not ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// Behaviour at instants that were missed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed: Missed,
    /// Body of its jobs, as JSON text.
    pub body: String,
    /// Policy of its jobs, as far as it is given.
    #[serde(default, serialize_with = "without_nulls")]
    pub policy: PolicyFields,
    /// Headers of its jobs.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Trace of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// The fields that determine the instants of a schedule.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TimingFields {
    /// Cron line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Time zone of the cron line, by its IANA name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Time between two instants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// One of the instants of `every`, in the past or future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<UnixMillis>,
    /// Earliest instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<UnixMillis>,
    /// End of the instants, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<UnixMillis>,
}

/// Behaviour at an instant at which the last job of the schedule is delayed, ready or reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Put another job.
    #[default]
    Put,
    /// Skip the instant.
    Skip,
}

/// Behaviour at instants that are more than a minute overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Put the job of the latest one.
    #[default]
    Once,
    /// Put none.
    None,
    /// Put the jobs of the last 1,000.
    All,
}

impl TimingFields {
    /// Parses a new timing. `now` decides whether a cron line has an instant within ten years.
    ///
    /// # Errors
    /// The faulty field, and what is wrong with it.
    pub fn parse(&self, now: UnixMillis) -> Result<Timing, Invalid> {
        Timing::parse(&self.fields(), now.get())
    }

    /// Parses the timing of a schedule, whose last instant may have passed.
    ///
    /// # Errors
    /// The faulty field, and what is wrong with it.
    pub fn parse_known(&self) -> Result<Timing, Invalid> {
        Timing::parse_known(&self.fields())
    }

    fn fields(&self) -> Fields {
        Fields {
            cron: self.cron.clone(),
            timezone: self.timezone.clone(),
            every: self.every.map(Duration::from),
            anchor: self.anchor.map(UnixMillis::get),
            start: self.start.map(UnixMillis::get),
            end: self.end.map(UnixMillis::get),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes only the fields that are given.
fn without_nulls<S: Serializer>(policy: &PolicyFields, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serde_json::to_value(policy).map_err(serde::ser::Error::custom)?;
    if let Value::Object(fields) = &mut fields {
        fields.retain(|_, value| !value.is_null());
    }
    fields.serialize(serializer)
}
