//! A reschedule.

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{body::body, given, policy::with_job_policy, put::schedule};
use crate::{
    config::Limits,
    http::{
        problem::Problem,
        schema::{rules, types},
    },
    job::{Change, Job, JobId, Millis, State, Topic, TraceParent, UnixMillis},
};

with_job_policy! {
/// A change of a job, and what a GET shows besides, so that its whole answer can be sent back: such a field must be
/// as the job has it. At least one of `delay` or `due_at`, `body`, `ttr`, `max_attempts`, `backoff`,
/// `headers`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both_or_no_change()))]
pub struct PatchJob<'a> {
    /// Another body; null is a body. As in a put.
    #[schemars(with = "types::Anything")]
    #[serde(default, borrow, deserialize_with = "given")]
    body: Option<&'a RawValue>,
    /// How long from now until the job is due. Not together with `due_at`.
    delay: Option<Millis>,
    /// When the job is due, at most ten years ahead; a time in the past is now. Not together with `delay`.
    due_at: Option<UnixMillis>,
    /// As the job has it.
    id: Option<JobId>,
    /// As the job has it.
    topic: Option<Topic>,
    /// As the job has it.
    state: Option<State>,
    /// As the job has it.
    attempt: Option<u32>,
    /// As the job has it.
    created_at: Option<UnixMillis>,
    /// As the job has it.
    reserved_until: Option<UnixMillis>,
    /// As the job has it.
    died_at: Option<UnixMillis>,
    /// As the job has it.
    error: Option<String>,
    /// As the job has it.
    traceparent: Option<TraceParent>,
}
}

impl PatchJob<'_> {
    /// Does it say anything that it cannot change?
    pub fn tells(&self) -> bool {
        let Self { id, topic, state, attempt, created_at, .. } = self;
        let Self { reserved_until, died_at, error, traceparent, .. } = self;
        let names = id.is_some() || topic.is_some() || error.is_some() || traceparent.is_some();
        let times = created_at.is_some() || reserved_until.is_some() || died_at.is_some();
        names || times || state.is_some() || attempt.is_some()
    }

    /// Takes out what is so already. What cannot be changed must be: to ask for another topic is a
    /// mistake.
    pub fn beside(mut self, job: &Job) -> Result<Self, Problem> {
        if matches!(job.state, State::Reserved | State::Dead) {
            // It is refused for that.
            return Ok(self);
        }
        let differs = [
            ("id", self.id.as_ref().is_some_and(|id| *id != job.id)),
            ("topic", self.topic.as_ref().is_some_and(|topic| *topic != job.topic)),
            ("state", self.state.is_some_and(|state| state != job.state)),
            ("attempt", self.attempt.is_some_and(|attempt| attempt != job.attempt)),
            ("created_at", self.created_at.is_some_and(|at| at != job.created_at)),
            (
                "reserved_until",
                self.reserved_until.is_some_and(|at| Some(at) != job.reserved_until),
            ),
            ("died_at", self.died_at.is_some_and(|at| Some(at) != job.died_at)),
            ("error", self.error.is_some() && self.error != job.error),
            (
                "traceparent",
                self.traceparent.is_some() && self.traceparent != job.policy.traceparent,
            ),
        ];
        if let Some((field, _)) = differs.into_iter().find(|(_, differs)| *differs) {
            let detail = "cannot be changed, and is not what the job has now";
            return Err(Problem::field(field, detail));
        }
        // A ready job's due time has passed: given anew, it would be now.
        self.due_at = self.due_at.filter(|&at| at != job.due_at);
        Ok(self)
    }

    pub fn valid(mut self, content: &Bytes, limits: Limits) -> Result<Change, Problem> {
        let policy = self.policy()?;
        let change = Change {
            schedule: schedule(self.delay, self.due_at)?,
            body: body(self.body, content, limits)?,
            policy,
        };
        if change == Change::default() {
            let detail =
                "must change one of delay, due_at, body, ttr, max_attempts, backoff, headers";
            return Err(Problem::request(detail));
        }
        Ok(change)
    }
}
