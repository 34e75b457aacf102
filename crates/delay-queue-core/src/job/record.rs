//! Job records: the input of a put, and the jobs that pop and get return.

use bytes::Bytes;

use super::{
    consumer::Consumer,
    duration::Millis,
    history::PastAttempt,
    id::JobId,
    policy::{Policy, PolicyFields},
    reservation::Reservation,
    state::State,
    time::UnixMillis,
    topic::Topic,
};

/// The shortest TTR.
pub const MIN_TTR: Millis = Millis::new(1_000);
/// The longest TTR.
pub const MAX_TTR: Millis = Millis::new(24 * 60 * 60 * 1_000);
/// The longest `error` text of a consumer, in bytes.
pub const MAX_ERROR_BYTES: usize = 4096;

/// The longest retention of a finished job.
pub const MAX_FINISHED_RETENTION: Millis = Millis::new(30 * 86_400_000);
/// The longest result of a job, in bytes.
pub const MAX_RESULT_BYTES: usize = 64 << 10;

/// When a job becomes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// This long after the store accepts the job, by the store's clock.
    In(Millis),
    /// At this time; a past one means now.
    At(UnixMillis),
}

/// Behaviour of a put whose id exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Refuse the put.
    #[default]
    Reject,
    /// Keep the existing job as it is.
    Keep,
    /// Replace the existing job, unless it is reserved.
    Replace,
}

/// A job to be put, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// The id.
    pub id: JobId,
    /// The topic from which consumers pop it.
    pub topic: Topic,
    /// JSON text, kept byte for byte.
    pub body: Bytes,
    /// When it becomes due.
    pub schedule: Schedule,
    /// Further fields of its put.
    pub policy: Policy,
    /// Action if a job with this id exists.
    pub on_conflict: OnConflict,
}

/// The changes of a reschedule; a field that is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// The new due time.
    pub schedule: Option<Schedule>,
    /// The new body.
    pub body: Option<Bytes>,
    /// New fields of the policy; a new TTR applies from the next pop on.
    pub policy: PolicyFields,
}

/// A job in the store, as `get` returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The id.
    pub id: JobId,
    /// The topic from which consumers pop it.
    pub topic: Topic,
    /// JSON text as it was put; empty if the job is finished.
    pub body: Bytes,
    /// The current state.
    pub state: State,
    /// Number of pops so far that count.
    pub attempt: u32,
    /// Whether a consumer gave the job back uncounted while it had no counted attempt.
    pub is_snoozed: bool,
    /// When it becomes or became due.
    pub due_at: UnixMillis,
    /// When it was put, by the store's clock.
    pub created_at: UnixMillis,
    /// How long a consumer may hold it; while it is reserved, how long the current consumer may.
    pub ttr: Millis,
    /// As it was put or changed; its TTR is that of the next consumer.
    pub policy: Policy,
    /// The reservation of the last pop, also after its TTR ended; removed when the consumer
    /// releases or buries the job or a reschedule changes it.
    pub reservation: Option<Reservation>,
    /// The end of the TTR, while reserved.
    pub reserved_until: Option<UnixMillis>,
    /// When it died, while dead.
    pub died_at: Option<UnixMillis>,
    /// The error of the last failed attempt.
    pub error: Option<String>,
    /// How it ended, while finished.
    pub ending: Option<Ending>,
    /// The consumer that holds it, if it gave a name; only while reserved.
    pub consumer: Option<Consumer>,
    /// The start of the running attempt, unless that is `reserved_until` less `ttr`; only while
    /// reserved.
    pub started_at: Option<UnixMillis>,
    /// The last attempts that have ended, oldest first.
    pub history: Vec<PastAttempt>,
}

impl Job {
    /// Returns the bytes of its body, of its result, and of the errors in its history.
    pub fn content_bytes(&self) -> usize {
        let result = self.ending.as_ref().and_then(|ending| ending.result.as_ref());
        let errors = self.history.iter().filter_map(|past| past.error.as_ref());
        self.body.len() + result.map_or(0, Bytes::len) + errors.map(String::len).sum::<usize>()
    }
}

/// The end of a job that is kept as finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// When it was finished or deleted.
    pub at: UnixMillis,
    /// Whether it was finished or deleted.
    pub outcome: Outcome,
    /// JSON text that the consumer gave.
    pub result: Option<Bytes>,
}

/// How a kept job ended. Exports contain the names: they must stay stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A consumer finished it.
    Finished,
    /// A consumer finished it with a result, for which the store had no room.
    ResultDropped,
    /// A client deleted it.
    Deleted,
}

impl Job {
    /// Returns the time that orders jobs of this state: the due time; if reserved, the end of the
    /// TTR; if dead or finished, the end of the retention.
    pub fn at(&self) -> UnixMillis {
        match self.state {
            State::Delayed | State::Ready => self.due_at,
            State::Reserved => self.reserved_until.unwrap_or(self.due_at),
            State::Dead => self.died_at.unwrap_or(self.due_at).after(self.policy.dead_retention),
            State::Finished => {
                let ended = self.ending.as_ref().map_or(self.due_at, |ending| ending.at);
                ended.after(self.policy.finished_retention)
            }
        }
    }

    /// Returns whether a consumer has got the job since it was put or kicked.
    pub fn was_popped(&self) -> bool {
        self.attempt > 0 || self.is_snoozed
    }

    /// Returns the job as it could be put again, without the traces of pops.
    pub fn unpopped(&self) -> NewJob {
        NewJob {
            id: self.id.clone(),
            topic: self.topic.clone(),
            body: self.body.clone(),
            schedule: Schedule::At(self.due_at),
            policy: self.policy.clone(),
            on_conflict: OnConflict::Reject,
        }
    }
}

/// A job as a pop delivers it to a consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct PoppedJob {
    /// The id.
    pub id: JobId,
    /// The topic it was popped from.
    pub topic: Topic,
    /// JSON text as it was put.
    pub body: Bytes,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When it became due.
    pub due_at: UnixMillis,
    /// When it was put.
    pub created_at: UnixMillis,
    /// How long this consumer may hold it.
    pub ttr: Millis,
    /// The reservation of this consumer.
    pub reservation: Reservation,
    /// When the reservation ends.
    pub reserved_until: UnixMillis,
    /// As it was put or changed.
    pub policy: Policy,
}

impl NewJob {
    /// Creates a job of the standard policy that is due at once.
    pub fn new(id: JobId, topic: Topic, body: impl Into<Bytes>) -> Self {
        Self {
            id,
            topic,
            body: body.into(),
            schedule: Schedule::In(Millis::ZERO),
            policy: Policy::STANDARD,
            on_conflict: OnConflict::Reject,
        }
    }
}

impl PoppedJob {
    /// Returns when it was popped, by the store's clock, rounded up.
    pub fn popped_at(&self) -> UnixMillis {
        UnixMillis::new(self.reserved_until.get().saturating_sub(self.ttr.get()))
    }
}
