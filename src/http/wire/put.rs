//! A put.

use axum::body::Bytes;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{body::body, ttr};
use crate::{
    config::Limits,
    http::{
        problem::Problem,
        schema::{rules, schemas, types},
    },
    job::{Backoff, JobId, Millis, OnConflict, Schedule, Topic, TraceParent, UnixMillis},
    queue::Put,
};

/// A job to be put.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both("delay", "due_at")))]
pub struct PutJob<'a> {
    /// What consumers pop from.
    #[schemars(with = "Topic")]
    topic: Option<Topic>,
    /// Your own name for the job, unique in the whole store. Default: a number that the server makes.
    id: Option<JobId>,
    /// Any JSON value, 256 KiB at most by default (`limits.max_body_bytes`), nested at most 128 deep. It comes back
    /// byte for byte. Default: null.
    #[serde(borrow)]
    #[schemars(with = "Option<types::Anything>")]
    body: Option<&'a RawValue>,
    /// How long from now until the job is due. Not together with `due_at`. Default: 0.
    delay: Option<Millis>,
    /// When the job is due, at most ten years ahead; a time in the past is now. Not together with `delay`.
    due_at: Option<UnixMillis>,
    /// How long a consumer has to finish the job. Default: the topic's, else 60 s.
    #[schemars(with = "Option<types::Ttr>")]
    ttr: Option<Millis>,
    /// How many pops before the job is dead; 0 is no limit. Default: the topic's, else 20, or one more than
    /// `backoff` has values if it is a list.
    max_attempts: Option<Count>,
    /// How long the job waits before its next attempt, after a release without a `delay` or an expired TTR: a list
    /// of durations, whose last value repeats, or exponential. Default: the topic's, else none, so the job is ready
    /// again at once.
    backoff: Option<Backoff>,
    /// What happens if a job with this `id` exists: `reject` answers 409 `job_exists`, `keep` leaves it as it is,
    /// `replace` gives it the new body and schedule with attempts from zero. Default: `reject`. `keep` and `replace`
    /// reach only a job of the same topic, and no reserved job is replaced.
    on_conflict: Option<OnConflict>,
    /// Where the put stands in a distributed trace (W3C Trace Context); consumers get it. Default: the header
    /// `traceparent` of the request, if it has a valid one.
    traceparent: Option<TraceParent>,
}

/// A number of attempts.
pub struct Count(pub u32);
schemas! {
    Count => |_| json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Count;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a whole number from 0 to {}", u32::MAX)
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Count, E> {
                let refused = |_| E::invalid_value(de::Unexpected::Unsigned(count), &self);
                count.try_into().map(Count).map_err(refused)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl PutJob<'_> {
    /// Checks what concerns several fields; `content` is where the body text lies, `traceparent` that
    /// of the request.
    pub fn valid(
        self,
        content: &Bytes,
        limits: Limits,
        traceparent: Option<TraceParent>,
    ) -> Result<Put, Problem> {
        Ok(Put {
            id: self.id,
            topic: self.topic.ok_or_else(|| Problem::field("topic", "is missing"))?,
            body: body(self.body, content, limits)?.unwrap_or_else(|| Bytes::from_static(b"null")),
            schedule: schedule(self.delay, self.due_at)?.unwrap_or(Schedule::In(Millis::ZERO)),
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
            traceparent: self.traceparent.or(traceparent),
            on_conflict: self.on_conflict.unwrap_or_default(),
        })
    }
}

pub fn schedule(
    delay: Option<Millis>,
    due_at: Option<UnixMillis>,
) -> Result<Option<Schedule>, Problem> {
    match (delay, due_at) {
        (Some(_), Some(_)) => Err(Problem::field("due_at", "and `delay` exclude each other")),
        (Some(delay), None) => Ok(Some(Schedule::In(delay))),
        (None, Some(due_at)) => Ok(Some(Schedule::At(due_at))),
        (None, None) => Ok(None),
    }
}
