//! A put, a reschedule, and what is set for a topic.

use axum::body::Bytes;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{given, ttr};
use crate::{
    config::Limits,
    http::problem::Problem,
    job::{Backoff, Change, JobId, Millis, OnConflict, Schedule, Topic, TopicDefaults, UnixMillis},
    queue::Put,
};

/// A put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PutJob<'a> {
    topic: Topic,
    #[serde(default, deserialize_with = "given")]
    id: Option<JobId>,
    #[serde(default, borrow)]
    body: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    due_at: Option<UnixMillis>,
    #[serde(default, deserialize_with = "given")]
    ttr: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Count>,
    #[serde(default, deserialize_with = "given")]
    backoff: Option<Backoff>,
    #[serde(default)]
    on_conflict: OnConflict,
}

/// A number of attempts.
struct Count(u32);

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
    /// Checks what concerns several fields; `content` is where the body text lies.
    pub(in crate::http) fn valid(self, content: &Bytes, limits: Limits) -> Result<Put, Problem> {
        Ok(Put {
            id: self.id,
            topic: self.topic,
            body: body(self.body, content, limits)?.unwrap_or_else(|| Bytes::from_static(b"null")),
            schedule: schedule(self.delay, self.due_at)?.unwrap_or(Schedule::In(Millis::ZERO)),
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
            on_conflict: self.on_conflict,
        })
    }
}

/// A reschedule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PatchJob<'a> {
    #[serde(default, borrow, deserialize_with = "given")]
    body: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    due_at: Option<UnixMillis>,
    #[serde(default, deserialize_with = "given")]
    ttr: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Count>,
    #[serde(default, deserialize_with = "given")]
    backoff: Option<Backoff>,
}

impl PatchJob<'_> {
    pub(in crate::http) fn valid(self, content: &Bytes, limits: Limits) -> Result<Change, Problem> {
        let change = Change {
            schedule: schedule(self.delay, self.due_at)?,
            body: body(self.body, content, limits)?,
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
        };
        if change == Change::default() {
            let detail = "must change one of delay, due_at, body, ttr, max_attempts, backoff";
            return Err(Problem::field("body", detail));
        }
        Ok(change)
    }
}

fn body(raw: Option<&RawValue>, content: &Bytes, limits: Limits) -> Result<Option<Bytes>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    let (length, limit) = (raw.get().len(), limits.body_bytes);
    if length > limit {
        let detail =
            format!("`body` must have at most {limit} bytes (limits.body_bytes), got {length}");
        return Err(Problem { field: Some("body".to_owned()), ..Problem::body_too_large(detail) });
    }
    Ok(Some(content.slice_ref(raw.get().as_bytes())))
}

fn schedule(
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

/// What is set for new jobs of a topic.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PutTopic {
    #[serde(default, deserialize_with = "given")]
    ttr: Option<Millis>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<Count>,
    #[serde(default, deserialize_with = "given")]
    backoff: Option<Backoff>,
    #[serde(default, deserialize_with = "given")]
    dead_retention: Option<Millis>,
}

impl PutTopic {
    pub(in crate::http) fn valid(self) -> Result<TopicDefaults, Problem> {
        Ok(TopicDefaults {
            ttr: ttr(self.ttr)?,
            max_attempts: self.max_attempts.map(|Count(count)| count),
            backoff: self.backoff,
            dead_retention: self.dead_retention,
        })
    }
}
