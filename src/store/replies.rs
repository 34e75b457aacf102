//! What transitions and reads reply.

use std::time::Duration;

use crate::job::{PoppedJob, State, Topic, UnixMillis};

/// Where a put left its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What became of it.
    pub how: PutOutcome,
    /// The living job's state.
    pub state: State,
    /// The living job's due time.
    pub due_at: UnixMillis,
}

/// What a put did about its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The id was free.
    Created,
    /// The id was alive and is unchanged.
    Kept,
    /// The id was alive and is now this job.
    Replaced,
}

/// What one request got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Popped {
    /// The jobs, now reserved.
    pub jobs: Vec<PoppedJob>,
    /// How many of the topic are still ready in this bucket.
    pub left: u64,
}

/// Where a transition left a living job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitioned {
    /// Its topic.
    pub topic: Topic,
    /// Its state.
    pub state: State,
    /// Its due time.
    pub due_at: UnixMillis,
    /// It died by this transition, and was not dead before.
    pub died: bool,
}

/// What a promote did and what comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Promoted {
    /// By topic.
    pub topics: Vec<(Topic, PromoteCounts)>,
    /// The bucket's next deadline; one that has come means that there is more to promote.
    pub next: Option<Next>,
}

/// How many jobs a promote has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromoteCounts {
    /// Became ready.
    pub ready: u64,
    /// Reservations whose TTR ran out.
    pub expired: u64,
    /// Of those, jobs that are dead now.
    pub dead: u64,
    /// Dead jobs that are gone now.
    pub gone: u64,
}

impl Promoted {
    /// Over all topics.
    pub fn total(&self) -> PromoteCounts {
        self.topics.iter().fold(PromoteCounts::default(), |sum, (_, moves)| PromoteCounts {
            ready: sum.ready + moves.ready,
            expired: sum.expired + moves.expired,
            dead: sum.dead + moves.dead,
            gone: sum.gone + moves.gone,
        })
    }
}

/// What a poll of a bucket found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The bucket's next deadline. May be too early, never too late. None if it was not asked for.
    pub next: Option<Next>,
    /// Ready jobs of each topic asked for.
    pub ready: Vec<u64>,
}

/// A deadline, and how far it is by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// When it is.
    pub at: UnixMillis,
    /// How long until then; zero if it has come.
    pub wait: Duration,
}

impl Next {
    /// As seen at a time in Unix microseconds: a wait rounded to milliseconds would be late.
    pub fn seen(at: UnixMillis, micros: u64) -> Self {
        let deadline = at.get().saturating_mul(1_000);
        Self { at, wait: Duration::from_micros(deadline.saturating_sub(micros)) }
    }

    /// Whether it has come.
    pub fn has_come(self) -> bool {
        self.wait.is_zero()
    }
}
