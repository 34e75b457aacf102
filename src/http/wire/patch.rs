//! Changes of a job.

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, value::RawValue};

use super::{body::body, given, history::attempts, policy::with_job_policy, put::schedule};
use crate::{
    config::Limits,
    http::{
        problem::Problem,
        schema::{rules, types},
    },
    job::{Change, Consumer, Job, JobId, Millis, Outcome, State, Topic, TraceParent, UnixMillis},
};

with_job_policy! {
/// A change of a job. It may contain all other fields of a GET, so that a client can send the whole
/// answer back: these must equal the job's current values. At least one of `delay` or `due_at`,
/// `body`, `ttr`, `max_attempts`, `backoff`, `headers`, `finished_retention`, `priority`,
/// `expires_after` is required.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = rules::both_or_no_change()))]
pub struct PatchJob<'a> {
    /// New body, as in a put; null is a body.
    #[schemars(with = "types::Anything")]
    #[serde(default, borrow, deserialize_with = "given")]
    body: Option<&'a RawValue>,
    /// Time from now until the job is due. Not with `due_at`.
    delay: Option<Millis>,
    /// When the job is due, at most ten years ahead; a past time means now. Not with `delay`.
    due_at: Option<UnixMillis>,
    /// Must equal the current value of the job.
    id: Option<JobId>,
    /// Must equal the current value of the job.
    topic: Option<Topic>,
    /// Must equal the current value of the job.
    state: Option<State>,
    /// Must equal the current value of the job.
    #[schemars(range(max = u32::MAX))]
    attempt: Option<u32>,
    /// Must equal the current value of the job.
    created_at: Option<UnixMillis>,
    /// Must equal the current value of the job.
    reserved_until: Option<UnixMillis>,
    /// Must equal the current value of the job; `expires_after` changes it.
    expires_at: Option<UnixMillis>,
    /// Must equal the current value of the job.
    died_at: Option<UnixMillis>,
    /// Must equal the current value of the job.
    error: Option<String>,
    /// Must equal the current value of the job.
    dead_from: Option<Topic>,
    /// Must equal the current value of the job.
    scheduled_at: Option<UnixMillis>,
    /// Must equal the current value of the job.
    traceparent: Option<TraceParent>,
    /// Accepted as GET returns it; a reserved job cannot be changed.
    consumer: Option<Consumer>,
    /// Must equal the current value of the job.
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    history: Option<Value>,
    /// Accepted as GET returns it; a finished job cannot be changed.
    finished_at: Option<UnixMillis>,
    /// Accepted as GET returns it; a finished job cannot be changed.
    #[schemars(with = "Option<Outcome>")]
    outcome: Option<IgnoredAny>,
    /// Accepted as GET returns it; a finished job cannot be changed.
    #[schemars(with = "Option<types::Anything>")]
    result: Option<IgnoredAny>,
    /// Accepted as GET returns it; a finished job cannot be changed.
    #[schemars(with = "Option<bool>")]
    result_dropped: Option<IgnoredAny>,
}
}

/// Returns the history of a job as a GET shows it.
fn shown_history(job: &Job) -> Value {
    serde_json::to_value(attempts(job)).unwrap_or_default()
}

impl PatchJob<'_> {
    /// Takes the id, by which a batch names the job.
    pub fn take_id(&mut self) -> Option<JobId> {
        self.id.take()
    }

    /// Returns whether the request contains a field that it cannot change.
    pub fn has_read_only_fields(&self) -> bool {
        let Self { id, topic, state, attempt, created_at, .. } = self;
        let Self { reserved_until, expires_at, died_at, error, traceparent, .. } = self;
        let Self { finished_at, outcome, result, result_dropped, consumer, history, .. } = self;
        let Self { dead_from, scheduled_at, .. } = self;
        let ended = finished_at.is_some()
            || outcome.is_some()
            || result.is_some()
            || result_dropped.is_some();
        let names = id.is_some() || topic.is_some() || error.is_some() || traceparent.is_some();
        let times = created_at.is_some()
            || reserved_until.is_some()
            || expires_at.is_some()
            || died_at.is_some()
            || scheduled_at.is_some();
        let attempts = consumer.is_some() || history.is_some() || dead_from.is_some();
        names || times || ended || attempts || state.is_some() || attempt.is_some()
    }

    /// Drops `due_at` and `expires_after` if they equal the job's values. Refuses fields that
    /// cannot be changed and differ from the job: another topic, for example, is a mistake.
    pub fn without_unchanged(mut self, job: &Job) -> Result<Self, Problem> {
        if matches!(job.state, State::Reserved | State::Dead | State::Finished) {
            // The change itself is refused because of the state.
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
            ("expires_at", self.expires_at.is_some_and(|at| Some(at) != job.policy.expires_at)),
            ("died_at", self.died_at.is_some_and(|at| Some(at) != job.died_at)),
            ("finished_at", self.finished_at.is_some()),
            ("outcome", self.outcome.is_some()),
            ("result", self.result.is_some()),
            ("result_dropped", self.result_dropped.is_some()),
            ("error", self.error.is_some() && self.error != job.error),
            ("consumer", self.consumer.is_some() && self.consumer != job.consumer),
            ("history", self.history.as_ref().is_some_and(|given| *given != shown_history(job))),
            ("dead_from", self.dead_from.is_some() && self.dead_from != job.policy.dead_from),
            (
                "scheduled_at",
                self.scheduled_at.is_some() && self.scheduled_at != job.policy.scheduled_at,
            ),
            (
                "traceparent",
                self.traceparent.is_some() && self.traceparent != job.policy.traceparent,
            ),
        ];
        if let Some((field, _)) = differs.into_iter().find(|(_, differs)| *differs) {
            let detail = "cannot be changed, and differs from the job; leave it out or send the \
                          current value";
            return Err(Problem::field(field, detail));
        }
        // The due time of a ready job is in the past, and writing a past time stores the current
        // time instead.
        self.due_at = self.due_at.filter(|&at| at != job.due_at);
        // Setting it would count anew, from the current due time.
        self.expires_after = self.expires_after.filter(|after| *after != job.policy.expires_after);
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
            let detail = "must change at least one of delay, due_at, body, ttr, max_attempts, \
                          backoff, headers, finished_retention, priority, expires_after";
            return Err(Problem::request(detail));
        }
        Ok(change)
    }
}
