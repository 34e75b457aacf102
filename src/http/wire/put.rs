//! Puts.

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{body::body, policy::with_job_policy};
use crate::{
    config::Limits,
    http::{
        problem::Problem,
        schema::{rules, types},
    },
    job::{JobId, Millis, OnConflict, PolicyFields, Schedule, Topic, TraceParent, UnixMillis},
    queue::Put,
};

with_job_policy! {
/// A job to be put.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both("delay", "due_at")))]
pub struct PutJob<'a> {
    /// Topic that consumers pop from.
    #[schemars(with = "Topic")]
    topic: Option<Topic>,
    /// Your own name for the job, unique in the store. Default: a number that the server generates.
    id: Option<JobId>,
    /// Any JSON value, 256 KiB at most by default (`limits.max_body_bytes`), with at most 128
    /// levels of nesting. Consumers get it byte for byte. Default: null.
    #[serde(borrow)]
    #[schemars(with = "Option<types::Anything>")]
    body: Option<&'a RawValue>,
    /// Time from now until the job is due. Not with `due_at`. Default: 0.
    delay: Option<Millis>,
    /// When the job is due, at most ten years ahead; a past time means now. Not with `delay`.
    due_at: Option<UnixMillis>,
    /// Behaviour if a job with this `id` exists: `reject` answers 409 `job_exists`; `keep` leaves
    /// the job unchanged; `replace` gives it the new body and schedule, with attempts from zero.
    /// Default: `reject`. `keep` and `replace` apply only to a job of the same topic; `keep` also
    /// to one that has died there and moved. A reserved job cannot be replaced.
    on_conflict: Option<OnConflict>,
    /// Context of the put in a distributed trace (W3C Trace Context); consumers receive it.
    /// Default: the header `traceparent` of the request, if it has a valid one.
    traceparent: Option<TraceParent>,
}
}

impl PutJob<'_> {
    /// Checks rules between fields. `content` contains the body; `traceparent` is the request's.
    pub fn valid(
        mut self,
        content: &Bytes,
        limits: Limits,
        traceparent: Option<TraceParent>,
    ) -> Result<Put, Problem> {
        let policy = self.policy()?;
        Ok(Put {
            id: self.id,
            topic: self.topic.ok_or_else(|| Problem::field("topic", "is missing"))?,
            body: body(self.body, content, limits)?.unwrap_or_else(|| Bytes::from_static(b"null")),
            schedule: schedule(self.delay, self.due_at)?.unwrap_or(Schedule::In(Millis::ZERO)),
            policy: PolicyFields { traceparent: self.traceparent.or(traceparent), ..policy },
            on_conflict: self.on_conflict.unwrap_or_default(),
        })
    }
}

pub fn schedule(
    delay: Option<Millis>,
    due_at: Option<UnixMillis>,
) -> Result<Option<Schedule>, Problem> {
    match (delay, due_at) {
        (Some(_), Some(_)) => Err(Problem::field("due_at", "cannot be combined with `delay`")),
        (Some(delay), None) => Ok(Some(Schedule::In(delay))),
        (None, Some(due_at)) => Ok(Some(Schedule::At(due_at))),
        (None, None) => Ok(None),
    }
}
