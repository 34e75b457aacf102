//! The last attempts of a job.
//!
//! A store keeps a [`History`] for each job that had an attempt worth keeping: one that ended while
//! the job stays, that was touched, or that has a named consumer. The running attempt becomes an
//! entry when it ends; until then its [`Hold`] has the fields that follow from no other part of the
//! job.

mod text;

use super::{
    consumer::Consumer, duration::Millis, record::Job, reservation::Reservation, state::State,
    time::UnixMillis,
};

/// Number of attempts that a history keeps.
pub const MAX_HISTORY: usize = 10;
/// The longest error of an entry, in bytes.
pub const MAX_HISTORY_ERROR_BYTES: usize = 256;

/// How an attempt ended. Stores and exports contain the names: they must stay stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The consumer gave the job back.
    Released,
    /// The consumer gave the job back, and the attempt does not count.
    ReleasedUncounted,
    /// The TTR ended.
    TimedOut,
    /// The consumer made the job dead.
    Buried,
    /// The consumer finished the job.
    Finished,
}

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    /// The number of the attempt, from 1; a kick of a dead job starts from 1 again.
    pub attempt: u32,
    /// When the job was popped.
    pub started_at: UnixMillis,
    /// When the attempt ended.
    pub ended_at: UnixMillis,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// The beginning of the consumer's error, at most [`MAX_HISTORY_ERROR_BYTES`].
    pub error: Option<String>,
    /// The consumer that popped the job, if it gave a name.
    pub consumer: Option<Consumer>,
}

/// Fields of the running attempt that the job does not have otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The reservation of the attempt; with any other one, the hold has ended.
    pub reservation: Reservation,
    /// When the job was popped, if it was touched since; otherwise the end of the TTR less the TTR.
    pub started_at: Option<UnixMillis>,
    /// The consumer that popped the job, if it gave a name.
    pub consumer: Option<Consumer>,
}

/// The running attempt, as the job shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running {
    /// The reservation of the attempt.
    pub reservation: Option<Reservation>,
    /// When the TTR ends.
    pub until: UnixMillis,
    /// How long the consumer may hold the job.
    pub ttr: Millis,
}

/// The last attempts of a job as a store keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The running attempt, if a part of it must be kept.
    pub hold: Option<Hold>,
    /// Attempts that have ended, at most [`MAX_HISTORY`], oldest first.
    pub attempts: Vec<PastAttempt>,
}

impl Running {
    /// Returns when it started, unless it was touched.
    pub fn started_at(self) -> UnixMillis {
        self.until.before(self.ttr)
    }
}

impl History {
    /// Returns the history of a job from another store.
    pub fn from_job(job: &Job) -> Self {
        let is_kept = job.consumer.is_some() || job.started_at.is_some();
        let reservation = job.reservation.filter(|_| is_kept && job.state == State::Reserved);
        let hold = |reservation| Hold {
            reservation,
            started_at: job.started_at,
            consumer: job.consumer.clone(),
        };
        Self { hold: reservation.map(hold), attempts: job.history.clone() }
    }

    /// Returns whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.hold.is_none() && self.attempts.is_empty()
    }

    /// Returns the running attempt if this reservation holds the job.
    pub fn held_by(&self, reservation: Option<Reservation>) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| Some(hold.reservation) == reservation)
    }

    /// Adds an attempt that has ended, and drops the oldest ones beyond [`MAX_HISTORY`].
    pub fn push(&mut self, attempt: PastAttempt) {
        self.attempts.push(attempt);
        let excess = self.attempts.len().saturating_sub(MAX_HISTORY);
        self.attempts.drain(..excess);
    }

    /// Adds the entry of an attempt that ends; returns whether it did. The start and the consumer
    /// are those of the running attempt or, if its TTR has ended, of the entry about that, which
    /// the new one replaces. Of uncounted releases in a row, only the last one stays.
    pub fn end(&mut self, running: Option<Running>, end: PastAttempt) -> bool {
        let is_expired = |last: &mut PastAttempt| {
            (last.attempt, last.outcome) == (end.attempt, AttemptOutcome::TimedOut)
        };
        let (started_at, consumer) = if let Some(running) = running {
            let hold = self.held_by(running.reservation).cloned();
            let start = hold.as_ref().and_then(|hold| hold.started_at);
            (start.unwrap_or(running.started_at()), hold.and_then(|hold| hold.consumer))
        } else {
            let Some(known) = self.attempts.pop_if(is_expired) else { return false };
            (known.started_at, known.consumer)
        };
        let is_uncounted = |past: &PastAttempt| past.outcome == AttemptOutcome::ReleasedUncounted;
        if is_uncounted(&end) {
            self.attempts.pop_if(|last| is_uncounted(last));
        }
        self.hold = None;
        let ended_at = end.ended_at.max(started_at);
        self.push(PastAttempt { started_at, ended_at, consumer, ..end });
        true
    }

    /// Gives the history to its job. Only a reserved job has a running attempt.
    pub fn into_job(self, job: Job) -> Job {
        let held = self.held_by(job.reservation).filter(|_| job.state == State::Reserved);
        let (consumer, started_at) = match held.cloned() {
            Some(hold) => (hold.consumer, hold.started_at),
            None => (None, None),
        };
        let is_plain = |start: &UnixMillis| Some(*start) == popped_at(&job);
        let started_at = started_at.filter(|start| !is_plain(start));
        Job { consumer, started_at, history: self.attempts, ..job }
    }
}

/// Returns the start of the running attempt if the job was not touched.
fn popped_at(job: &Job) -> Option<UnixMillis> {
    job.reserved_until.map(|until| until.before(job.ttr))
}

impl Job {
    /// Returns when the running attempt started, while the job is reserved.
    pub fn running_since(&self) -> Option<UnixMillis> {
        self.started_at.or(popped_at(self)).filter(|_| self.state == State::Reserved)
    }
}

/// Cuts an error to its beginning of at most [`MAX_HISTORY_ERROR_BYTES`], between characters.
pub fn cut_error(error: &str) -> Option<String> {
    Some(beginning(error, MAX_HISTORY_ERROR_BYTES).to_owned()).filter(|error| !error.is_empty())
}

/// Returns the beginning of a text, at most `max` bytes, cut between characters.
pub fn beginning(text: &str, max: usize) -> &str {
    let most = text.len().min(max);
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    &text[..end]
}
