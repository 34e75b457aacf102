//! The job record: what a put takes, what a pop and a get return.

use bytes::Bytes;

use super::{
    duration::Millis,
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
    /// What else its put says.
    pub policy: Policy,
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
    /// Other fields of its policy; another TTR holds from the next pop on.
    pub policy: PolicyFields,
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
    /// When it falls, or fell, due.
    pub due_at: UnixMillis,
    /// When it was put, by the store's clock.
    pub created_at: UnixMillis,
    /// How long a consumer has; while reserved: the one that holds it.
    pub ttr: Millis,
    /// As it was put, or changed since; its TTR is that of the next consumer.
    pub policy: Policy,
    /// The last pop's, until its consumer releases or buries the job or a reschedule changes it; holds
    /// also after the TTR expired.
    pub reservation: Option<Reservation>,
    /// While reserved: the end of the TTR.
    pub reserved_until: Option<UnixMillis>,
    /// While dead: since when.
    pub died_at: Option<UnixMillis>,
    /// What the last attempt left behind when it failed.
    pub error: Option<String>,
}

impl Job {
    /// The time by which jobs of its state are ordered: the due time, the end of the TTR if it is
    /// reserved, that of its retention if it is dead.
    pub fn at(&self) -> UnixMillis {
        match self.state {
            State::Delayed | State::Ready => self.due_at,
            State::Reserved => self.reserved_until.unwrap_or(self.due_at),
            State::Dead => self.died_at.unwrap_or(self.due_at).after(self.policy.dead_retention),
        }
    }

    /// The job as it would be put; what pops have left on it is not in that.
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
    /// As it was put, or changed since.
    pub policy: Policy,
}

impl NewJob {
    /// A job that is due at once, of the standard policy.
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
    /// When it was popped, by the store's clock, rounded up.
    pub fn popped_at(&self) -> UnixMillis {
        UnixMillis::new(self.reserved_until.get().saturating_sub(self.ttr.get()))
    }
}
