//! Filters of the jobs of a topic, which lists, kicks and purges share.

use super::{JobPosition, ReadyJobs};
use crate::job::{State, Topic, UnixMillis};

/// Period of time, open at either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// First millisecond of the period; `None` if it has no start.
    pub from: Option<UnixMillis>,
    /// First millisecond after the period; `None` if it has no end.
    pub before: Option<UnixMillis>,
}

impl Period {
    /// Period without bounds.
    pub const ALWAYS: Self = Self { from: None, before: None };

    /// Returns whether it has no bounds.
    pub fn is_always(&self) -> bool {
        *self == Self::ALWAYS
    }

    /// Returns whether a time is within the period.
    pub fn has(&self, at: UnixMillis) -> bool {
        self.from.is_none_or(|from| from <= at) && self.before.is_none_or(|before| at < before)
    }
}

/// Conditions on jobs, all of which must hold. A job that cannot be judged because its record is
/// damaged does not match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Text within the last error.
    pub error_contains: Option<String>,
    /// Text within the id.
    pub id_contains: Option<String>,
    /// When a dead job died; of no other job.
    pub died: Period,
    /// When the job is or was due; of no dead job.
    pub due: Period,
}

impl JobFilter {
    /// Returns whether every job matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bounds of the set of a state: delayed and ready jobs are ordered by due time.
    pub fn range_in(&self, state: State) -> Period {
        match state {
            State::Delayed | State::Ready => self.due,
            State::Reserved | State::Dead | State::Finished => Period::ALWAYS,
        }
    }

    /// Returns the due times by which jobs must be judged one by one.
    pub fn judged_due(&self, state: State) -> Period {
        match state {
            State::Reserved | State::Finished => self.due,
            State::Delayed | State::Ready | State::Dead => Period::ALWAYS,
        }
    }

    /// Returns whether each job of a state must be examined: its set alone does not decide.
    pub fn examines(&self, state: State) -> bool {
        let in_order = Self { due: self.judged_due(state), ..self.clone() };
        !in_order.is_empty()
    }

    /// Returns whether a job of this state can match. A finished job has no error.
    pub fn can_match(&self, state: State) -> bool {
        state != State::Finished || self.error_contains.is_none()
    }
}

/// Maximum number of jobs that a step compares with a filter. Mirrored in `shared/matching.lua`.
pub const MAX_EXAMINED: usize = 500;

/// One step through the jobs of a topic and state. It examines up to [`MAX_EXAMINED`] jobs, so that
/// other calls are not delayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Topic of the jobs.
    pub topic: Topic,
    /// State of the jobs.
    pub state: State,
    /// Conditions on the jobs.
    pub filter: JobFilter,
    /// Only jobs after this position.
    pub after: Option<JobPosition>,
    /// Maximum number of jobs that match.
    pub limit: usize,
}

/// Result of one step through the jobs of a topic and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched<T> {
    /// Result for the jobs that match.
    pub done: T,
    /// Position of the last examined job; `None` if no more jobs follow.
    pub next: Option<JobPosition>,
}

impl From<Matched<ReadyJobs>> for Matched<u64> {
    fn from(Matched { done, next }: Matched<ReadyJobs>) -> Self {
        Self { done: done.count, next }
    }
}
