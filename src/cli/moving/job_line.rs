//! A job as a line of an export, with all its data. Times are in Unix milliseconds, and durations
//! in milliseconds.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::attempt_line::{self, AttemptLine};
use crate::job::{
    Consumer, Ending, Job, JobId, MAX_DURATION, Millis, Outcome, Policy, Reservation, State, Topic,
    UnixMillis,
};

#[derive(Debug, Serialize, Deserialize)]
pub struct JobLine<'a> {
    id: JobId,
    topic: Topic,
    state: State,
    /// The JSON of the body as a string. So its whitespace, order of fields and digits of numbers
    /// are preserved, and a line feed in it does not end the line.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    due_at: u64,
    created_at: u64,
    /// The policy, with the TTR of the next pop.
    #[serde(flatten)]
    policy: Policy,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempt: u32,
    /// Whether a consumer gave the job back uncounted while it had no counted attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_snoozed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved_until: Option<u64>,
    /// The current TTR, while reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved_ttr_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    died_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The consumer that holds the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consumer: Option<Consumer>,
    /// Start of the running attempt, if the consumer has touched the job since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<AttemptLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    /// The JSON of the result as a string, like the body.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    result: Option<Cow<'a, str>>,
    /// Unknown fields, which are refused.
    #[serde(flatten, skip_serializing)]
    unknown: BTreeMap<String, IgnoredAny>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> JobLine<'a> {
    /// Creates the line of a job; returns an error if the job breaks a rule of stores.
    pub fn new(job: &'a Job) -> Result<Self, String> {
        let text = |json: &'a Bytes| std::str::from_utf8(json).map(Cow::Borrowed);
        let ending = job.ending.as_ref();
        let body = Some(&job.body).filter(|_| ending.is_none());
        let result = ending.and_then(|ending| ending.result.as_ref());
        let line = Self {
            id: job.id.clone(),
            topic: job.topic.clone(),
            state: job.state,
            body: body.map(text).transpose().map_err(|e| e.to_string())?,
            due_at: job.due_at.get(),
            created_at: job.created_at.get(),
            policy: job.policy.clone(),
            attempt: job.attempt,
            is_snoozed: job.is_snoozed,
            // The tag would be invalid in another store, which has another key.
            reservation: job.reservation.map(|held| held.untagged().to_string()),
            reserved_until: job.reserved_until.map(UnixMillis::get),
            reserved_ttr_ms: (job.state == State::Reserved).then(|| job.ttr.get()),
            died_at: job.died_at.map(UnixMillis::get),
            error: job.error.clone(),
            consumer: job.consumer.clone(),
            started_at: job.started_at.map(UnixMillis::get),
            history: job.history.iter().map(AttemptLine::new).collect(),
            finished_at: ending.map(|ending| ending.at.get()),
            outcome: ending.map(|ending| ending.outcome),
            result: result.map(text).transpose().map_err(|e| e.to_string())?,
            unknown: BTreeMap::new(),
        };
        line.check().map(|()| line)
    }

    pub fn job(self) -> Result<Job, String> {
        self.check()?;
        let bytes = |json: Cow<'_, str>| Bytes::from(json.into_owned());
        let ending = self.finished_at.zip(self.outcome).map(|(at, outcome)| Ending {
            at: UnixMillis::new(at),
            outcome,
            result: self.result.map(bytes),
        });
        let reservation = self.reservation.as_deref().map(str::parse::<Reservation>).transpose();
        Ok(Job {
            reservation: reservation.map_err(|()| "`reservation` must be 16 hexadecimal digits")?,
            id: self.id,
            topic: self.topic,
            body: self.body.map(bytes).unwrap_or_default(),
            state: self.state,
            attempt: self.attempt,
            is_snoozed: self.is_snoozed,
            due_at: UnixMillis::new(self.due_at),
            created_at: UnixMillis::new(self.created_at),
            ttr: self.reserved_ttr_ms.map_or(self.policy.ttr, Millis::new),
            policy: self.policy,
            reserved_until: self.reserved_until.map(UnixMillis::new),
            died_at: self.died_at.map(UnixMillis::new),
            error: self.error,
            ending,
            consumer: self.consumer,
            started_at: self.started_at.map(UnixMillis::new),
            history: self.history.into_iter().map(AttemptLine::attempt).collect(),
        })
    }

    /// Checks the rules that every job in a store obeys.
    fn check(&self) -> Result<(), String> {
        if let Some(field) = self.unknown.keys().next() {
            return Err(format!("unknown field `{field}`"));
        }
        for (name, json) in [("body", &self.body), ("result", &self.result)] {
            let Some(json) = json else { continue };
            serde_json::from_str::<&RawValue>(json)
                .map_err(|e| format!("`{name}` is not JSON: {e}"))?;
        }
        let times = [
            ("due_at", Some(self.due_at)),
            ("created_at", Some(self.created_at)),
            ("reserved_until", self.reserved_until),
            ("died_at", self.died_at),
            ("expires_at", self.policy.expires_at.map(UnixMillis::get)),
            ("finished_at", self.finished_at),
            ("started_at", self.started_at),
        ];
        attempt_line::check(&self.history)?;
        let spans = [
            ("ttr_ms", Some(self.policy.ttr.get())),
            ("reserved_ttr_ms", self.reserved_ttr_ms),
            ("dead_retention_ms", Some(self.policy.dead_retention.get())),
            ("finished_retention_ms", Some(self.policy.finished_retention.get())),
            ("expires_after_ms", self.policy.expires_after.map(Millis::get)),
        ];
        check_at_most(UnixMillis::LAST.get(), &times)?;
        check_at_most(MAX_DURATION.get(), &spans)?;
        if let Some((name, _)) = spans[..2].iter().find(|(_, ttr)| *ttr == Some(0)) {
            return Err(format!("`{name}` must be at least 1, got 0"));
        }
        let is = |state| self.state == state;
        let (reserved, dead, finished) =
            (is(State::Reserved), is(State::Dead), is(State::Finished));
        let unpopped = self.attempt == 0 && !self.is_snoozed;
        let has_expired = dead && self.policy.expires_at.is_some();
        let is_consistent = self.reserved_until.is_some() == reserved
            && self.reserved_ttr_ms.is_some() == reserved
            && (reserved || self.consumer.is_none() && self.started_at.is_none())
            && self.died_at.is_some() == dead
            && self.finished_at.is_some() == finished
            && self.outcome.is_some() == finished
            && self.body.is_none() == finished
            && (finished || self.result.is_none())
            && !(finished && self.error.is_some())
            && !(unpopped && (reserved || self.reservation.is_some() || dead && !has_expired))
            && !(self.is_snoozed && self.attempt == 0 && (reserved || self.reservation.is_some()))
            && (self.policy.expires_at.is_none() || self.policy.expires_after.is_some());
        if is_consistent {
            return Ok(());
        }
        let (state, attempt) = (self.state.name(), self.attempt);
        Err(format!(
            "its fields do not fit its state ({state}, attempt {attempt}): only a reserved job may have \
             `reserved_until`, `reserved_ttr_ms`, `consumer` and `started_at`; only a dead one \
             `died_at`; only a finished one `finished_at`, `outcome` and `result`, but no `body`; a \
             reserved or dead job must have an attempt, unless the dead one has expired; a job with \
             `expires_at` must have `expires_after_ms`"
        ))
    }
}

/// Checks that no field is above `max`; the error names the first one that is.
pub fn check_at_most(max: u64, fields: &[(&str, Option<u64>)]) -> Result<(), String> {
    let above = fields.iter().find_map(|&(name, value)| Some((name, value.filter(|v| *v > max)?)));
    above
        .map_or(Ok(()), |(name, value)| Err(format!("`{name}` must be at most {max}, got {value}")))
}
