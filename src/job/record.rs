//! The job record: what a put takes, what a pop and a get return.

use bytes::Bytes;

use super::{
    backoff::Backoff, duration::Millis, id::JobId, reservation::Reservation, state::State,
    time::UnixMillis, topic::Topic, traceparent::TraceParent,
};

/// The shortest TTR.
pub const MIN_TTR: Millis = Millis::new(1_000);
/// The longest TTR.
pub const MAX_TTR: Millis = Millis::new(24 * 60 * 60 * 1_000);
/// The longest `error` text a consumer may leave, in bytes.
pub const MAX_ERROR_BYTES: usize = 4096;

/// When a job falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// So long after the store takes it, by the store's clock.
    In(Millis),
    /// At this time; a past one means now.
    At(UnixMillis),
}

/// What a put does when its id is alive already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Refuse the put.
    #[default]
    Reject,
    /// Keep the living job as it is.
    Keep,
    /// Replace it, unless it is reserved.
    Replace,
}

/// What applies to a job that does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// How long a consumer has.
    pub ttr: Millis,
    /// How often a job is tried; 0 is no limit.
    pub max_attempts: u32,
    /// How long a dead job is kept.
    pub dead_retention: Millis,
}

/// A job on its way into a store, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// What consumers pop it from.
    pub topic: Topic,
    /// JSON text, kept byte for byte.
    pub body: Bytes,
    /// When it falls due.
    pub schedule: Schedule,
    /// How long a consumer has.
    pub ttr: Millis,
    /// Attempts before it is dead; 0 is no limit.
    pub max_attempts: u32,
    /// The wait before the next attempt; none is no wait.
    pub backoff: Option<Backoff>,
    /// How long it is kept when it is dead.
    pub dead_retention: Millis,
    /// Where its put stands in a trace; its consumers get it.
    pub traceparent: Option<TraceParent>,
    /// What happens when the id is alive already.
    pub on_conflict: OnConflict,
}

/// What a reschedule changes; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Another due time.
    pub schedule: Option<Schedule>,
    /// Another body.
    pub body: Option<Bytes>,
    /// Another TTR, from the next pop.
    pub ttr: Option<Millis>,
    /// Another limit.
    pub max_attempts: Option<u32>,
    /// Another backoff; within, `None` is no wait.
    pub backoff: Option<Option<Backoff>>,
}

impl Change {
    /// Another list takes along the limit that followed from the list before it, unless the change
    /// says another. A limit that was chosen stays; one that was chosen to be the same as the
    /// derived one cannot be told from it, and is taken along.
    #[must_use]
    pub fn with_attempts(self, backoff: Option<&Backoff>, max_attempts: u32) -> Self {
        let derived = backoff.and_then(Backoff::attempts) == Some(max_attempts);
        let new = self.backoff.iter().flatten().find_map(Backoff::attempts);
        let max_attempts = self.max_attempts.or(new.filter(|_| derived));
        Self { max_attempts, ..self }
    }
}

/// A living job as `get` returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What consumers pop it from.
    pub topic: Topic,
    /// JSON text as it was put.
    pub body: Bytes,
    /// Where it is.
    pub state: State,
    /// Pops so far.
    pub attempt: u32,
    /// Attempts before it is dead; 0 is no limit.
    pub max_attempts: u32,
    /// When it falls, or fell, due.
    pub due_at: UnixMillis,
    /// When it was put, by the store's clock.
    pub created_at: UnixMillis,
    /// How long a consumer has; while reserved: the one who has it.
    pub ttr: Millis,
    /// How long the next consumer has.
    pub own_ttr: Millis,
    /// The wait before the next attempt.
    pub backoff: Option<Backoff>,
    /// How long it is kept when it is dead.
    pub dead_retention: Millis,
    /// The last pop's, until its consumer releases or buries the job or a reschedule changes it; holds
    /// also after the TTR expired.
    pub reservation: Option<Reservation>,
    /// While reserved: the end of the TTR.
    pub reserved_until: Option<UnixMillis>,
    /// While dead: since when.
    pub died_at: Option<UnixMillis>,
    /// What the last attempt left behind when it failed.
    pub error: Option<String>,
    /// Where its put stands in a trace.
    pub traceparent: Option<TraceParent>,
}

impl Job {
    /// The time by which jobs of its state are ordered: the due time, the end of the TTR if it is
    /// reserved, that of its retention if it is dead.
    pub fn at(&self) -> UnixMillis {
        match self.state {
            State::Delayed | State::Ready => self.due_at,
            State::Reserved => self.reserved_until.unwrap_or(self.due_at),
            State::Dead => self.died_at.unwrap_or(self.due_at).after(self.dead_retention),
        }
    }

    /// The job as it would be put; what pops have left on it is not in that.
    pub fn unpopped(&self) -> NewJob {
        NewJob {
            id: self.id.clone(),
            topic: self.topic.clone(),
            body: self.body.clone(),
            schedule: Schedule::At(self.due_at),
            ttr: self.own_ttr,
            max_attempts: self.max_attempts,
            backoff: self.backoff.clone(),
            dead_retention: self.dead_retention,
            traceparent: self.traceparent,
            on_conflict: OnConflict::Reject,
        }
    }
}

/// A job as a pop hands it to a consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct PoppedJob {
    /// Its id.
    pub id: JobId,
    /// The topic it was popped from.
    pub topic: Topic,
    /// JSON text as it was put.
    pub body: Bytes,
    /// This attempt's number, from 1.
    pub attempt: u32,
    /// Attempts before it is dead; 0 is no limit.
    pub max_attempts: u32,
    /// When it fell due.
    pub due_at: UnixMillis,
    /// When it was put.
    pub created_at: UnixMillis,
    /// How long this consumer has.
    pub ttr: Millis,
    /// This consumer's hold on it.
    pub reservation: Reservation,
    /// When the hold ends.
    pub reserved_until: UnixMillis,
    /// Where its put stands in a trace.
    pub traceparent: Option<TraceParent>,
}

impl PoppedJob {
    /// When it was popped, by the store's clock, rounded up.
    pub fn popped_at(&self) -> UnixMillis {
        UnixMillis::new(self.reserved_until.get().saturating_sub(self.ttr.get()))
    }
}
