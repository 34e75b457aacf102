//! A put.

use axum::body::Bytes;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{body::body, ttr};
use crate::{
    config::Limits,
    http::problem::Problem,
    job::{Backoff, JobId, Millis, OnConflict, Schedule, Topic, TraceParent, UnixMillis},
    queue::Put,
};

/// A put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutJob<'a> {
    topic: Option<Topic>,
    id: Option<JobId>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    delay: Option<Millis>,
    due_at: Option<UnixMillis>,
    ttr: Option<Millis>,
    max_attempts: Option<Count>,
    backoff: Option<Backoff>,
    on_conflict: Option<OnConflict>,
    traceparent: Option<TraceParent>,
}

/// A number of attempts.
pub struct Count(pub u32);

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
