//! A job as a line: all that a store has of it. Times are Unix milliseconds, spans milliseconds.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::{
    Backoff, Job, JobId, MAX_DURATION, Millis, Reservation, State, Topic, TraceParent, UnixMillis,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine<'a> {
    id: JobId,
    topic: Topic,
    state: State,
    /// The body's JSON, as a string: blanks, order and digits of numbers are kept that way, and a
    /// line feed between its parts does not end the line.
    #[serde(borrow)]
    body: Cow<'a, str>,
    due_at: u64,
    created_at: u64,
    /// The TTR of the next pop.
    ttr_ms: u64,
    max_attempts: u32,
    /// As stores keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff: Option<String>,
    dead_retention_ms: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved_until: Option<u64>,
    /// While reserved: the TTR in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved_ttr_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    died_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Where its put stands in a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> JobLine<'a> {
    /// The line of a job; or why no store can have such a job.
    pub fn of(job: &'a Job) -> Result<Self, String> {
        let line = Self {
            id: job.id.clone(),
            topic: job.topic.clone(),
            state: job.state,
            body: Cow::Borrowed(std::str::from_utf8(&job.body).map_err(|e| e.to_string())?),
            due_at: job.due_at.get(),
            created_at: job.created_at.get(),
            ttr_ms: job.own_ttr.get(),
            max_attempts: job.max_attempts,
            backoff: job.backoff.as_ref().map(Backoff::to_string),
            dead_retention_ms: job.dead_retention.get(),
            attempt: job.attempt,
            // The tag that its holder has is of this store's key, which no other store has.
            reservation: job.reservation.map(|held| held.untagged().to_string()),
            reserved_until: job.reserved_until.map(UnixMillis::get),
            reserved_ttr_ms: (job.state == State::Reserved).then(|| job.ttr.get()),
            died_at: job.died_at.map(UnixMillis::get),
            error: job.error.clone(),
            traceparent: job.traceparent,
        };
        line.check().map(|()| line)
    }

    /// The job of a line.
    pub fn job(self) -> Result<Job, String> {
        self.check()?;
        let backoff = self.backoff.as_deref().map(str::parse::<Backoff>).transpose();
        let reservation = self.reservation.as_deref().map(str::parse::<Reservation>).transpose();
        Ok(Job {
            backoff: backoff.map_err(|error| format!("`backoff` {error}"))?,
            reservation: reservation.map_err(|()| "`reservation` must be 16 hexadecimal digits")?,
            id: self.id,
            topic: self.topic,
            body: self.body.into_owned().into(),
            state: self.state,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            due_at: UnixMillis::new(self.due_at),
            created_at: UnixMillis::new(self.created_at),
            ttr: Millis::new(self.reserved_ttr_ms.unwrap_or(self.ttr_ms)),
            own_ttr: Millis::new(self.ttr_ms),
            dead_retention: Millis::new(self.dead_retention_ms),
            reserved_until: self.reserved_until.map(UnixMillis::new),
            died_at: self.died_at.map(UnixMillis::new),
            error: self.error,
            traceparent: self.traceparent,
        })
    }

    /// What is true of every job in a store.
    fn check(&self) -> Result<(), String> {
        serde_json::from_str::<&RawValue>(&self.body)
            .map_err(|e| format!("`body` is no JSON: {e}"))?;
        let times = [
            ("due_at", Some(self.due_at)),
            ("created_at", Some(self.created_at)),
            ("reserved_until", self.reserved_until),
            ("died_at", self.died_at),
        ];
        let spans = [
            ("ttr_ms", Some(self.ttr_ms)),
            ("reserved_ttr_ms", self.reserved_ttr_ms),
            ("dead_retention_ms", Some(self.dead_retention_ms)),
        ];
        at_most(UnixMillis::LAST.get(), &times)?;
        at_most(MAX_DURATION.get(), &spans)?;
        if let Some((name, _)) = spans[..2].iter().find(|(_, ttr)| *ttr == Some(0)) {
            return Err(format!("`{name}` must be at least 1, got 0"));
        }
        let (reserved, dead) = (self.state == State::Reserved, self.state == State::Dead);
        let unpopped = self.attempt == 0;
        let fits = self.reserved_until.is_some() == reserved
            && self.reserved_ttr_ms.is_some() == reserved
            && self.died_at.is_some() == dead
            && !(unpopped && (reserved || dead || self.reservation.is_some()));
        if fits {
            return Ok(());
        }
        let (state, attempt) = (self.state.name(), self.attempt);
        Err(format!(
            "its fields do not fit its state ({state}, attempt {attempt}): `reserved_until` and \
             `reserved_ttr_ms` are of a reserved job, `died_at` is of a dead one, and both have \
             been popped"
        ))
    }
}

/// Refuses the first of these fields that is above `last`.
fn at_most(last: u64, fields: &[(&str, Option<u64>)]) -> Result<(), String> {
    let above = fields.iter().find_map(|&(name, value)| Some((name, value.filter(|v| *v > last)?)));
    above.map_or(Ok(()), |(name, value)| {
        Err(format!("`{name}` must be at most {last}, got {value}"))
    })
}
