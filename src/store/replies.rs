//! Replies of transitions and reads.

use std::time::Duration;

use crate::job::{PoppedJob, State, Topic, UnixMillis};

/// Result of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Effect of the put.
    pub how: PutOutcome,
    /// State of the living job.
    pub state: State,
    /// Due time of the living job.
    pub due_at: UnixMillis,
}

/// Effect of a put on the job of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The id was free: the job is new.
    Created,
    /// A living job had the id and is unchanged.
    Kept,
    /// A living job had the id and was replaced.
    Replaced,
}

/// Result of one pop request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Popped {
    /// The reserved jobs.
    pub jobs: Vec<PoppedJob>,
    /// Number of jobs of the topic that are still ready in this bucket.
    pub left: u64,
}

/// A living job after a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitioned {
    /// Topic of the job.
    pub topic: Topic,
    /// State after the transition.
    pub state: State,
    /// Due time after the transition.
    pub due_at: UnixMillis,
    /// Whether this transition made the job dead.
    pub died: bool,
}

/// Result of a promote in one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Promoted {
    /// Counts of promoted jobs by topic.
    pub topics: Vec<(Topic, PromoteCounts)>,
    /// The bucket's next deadline; if it has passed, more jobs wait to be promoted.
    pub next: Option<Next>,
}

/// Counts of jobs that a promote has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromoteCounts {
    /// Jobs that became ready.
    pub ready: u64,
    /// Reservations whose TTR expired.
    pub expired: u64,
    /// Expired jobs that became dead.
    pub dead: u64,
    /// Dead jobs deleted after their retention.
    pub gone: u64,
}

impl Promoted {
    /// Sums the counts of all topics.
    pub fn total(&self) -> PromoteCounts {
        self.topics.iter().fold(PromoteCounts::default(), |sum, (_, moves)| PromoteCounts {
            ready: sum.ready + moves.ready,
            expired: sum.expired + moves.expired,
            dead: sum.dead + moves.dead,
            gone: sum.gone + moves.gone,
        })
    }
}

/// Result of a poll of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The bucket's next deadline. May be too early, never too late. None if it was not requested.
    pub next: Option<Next>,
    /// Number of ready jobs of each requested topic.
    pub ready: Vec<u64>,
}

/// A deadline, and the time until it by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Time of the deadline.
    pub at: UnixMillis,
    /// Time until the deadline; zero if it has passed.
    pub wait: Duration,
}

impl Next {
    /// Computes the wait from the current Unix time in microseconds: a wait rounded to milliseconds
    /// would be late.
    pub fn seen(at: UnixMillis, micros: u64) -> Self {
        let deadline = at.get().saturating_mul(1_000);
        Self { at, wait: Duration::from_micros(deadline.saturating_sub(micros)) }
    }

    /// Returns whether the deadline has passed.
    pub fn has_come(self) -> bool {
        self.wait.is_zero()
    }
}
