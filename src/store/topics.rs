//! Requests and replies about topics and their jobs.

use super::{JobFilter, JobRef};
use crate::job::{Job, JobId, Millis, State, Topic, UnixMillis};

/// Number of jobs of a topic in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "JobCounts")]
pub struct Counts {
    /// Jobs that wait for their due time.
    pub delayed: u64,
    /// Jobs that may be popped.
    pub ready: u64,
    /// Jobs that a consumer has reserved.
    pub reserved: u64,
    /// Jobs that are kept, but not delivered again.
    pub dead: u64,
    /// Jobs that are kept after their end, with their results.
    pub finished: u64,
}

impl Counts {
    /// Returns the count of one state.
    pub fn of(&self, state: State) -> u64 {
        match state {
            State::Delayed => self.delayed,
            State::Ready => self.ready,
            State::Reserved => self.reserved,
            State::Dead => self.dead,
            State::Finished => self.finished,
        }
    }

    /// Returns the count of one state, to change it.
    pub fn of_mut(&mut self, state: State) -> &mut u64 {
        match state {
            State::Delayed => &mut self.delayed,
            State::Ready => &mut self.ready,
            State::Reserved => &mut self.reserved,
            State::Dead => &mut self.dead,
            State::Finished => &mut self.finished,
        }
    }

    /// Creates counts by calling `count` once per state.
    pub fn from_fn(mut count: impl FnMut(State) -> u64) -> Self {
        let mut counts = Self::default();
        State::ALL.into_iter().for_each(|state| *counts.of_mut(state) = count(state));
        counts
    }

    /// Adds two counts.
    pub fn plus(self, other: Self) -> Self {
        Self::from_fn(|state| self.of(state) + other.of(state))
    }
}

/// Usage of a topic or of the whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Number of jobs in any state.
    pub jobs: u64,
    /// For a topic, the bytes of its bodies; for the store, all bytes that it uses.
    pub bytes: u64,
}

impl Usage {
    /// Adds two usages.
    pub fn plus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Subtracts another usage, down to zero.
    pub fn minus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_sub(other.jobs),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Selection of topics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPage {
    /// Only names with this prefix.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<Topic>,
    /// Maximum number of topics.
    pub limit: usize,
}

/// One topic in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPeek {
    /// Number of jobs in each state.
    pub counts: Counts,
    /// Earliest due time of a delayed job.
    pub next_due_at: Option<UnixMillis>,
    /// Time since the oldest ready job became due, by the store's clock.
    pub oldest_ready_age: Option<Millis>,
    /// Time since the earliest delayed job should have become ready, by the store's clock; `None`
    /// if no job is overdue.
    pub overdue: Option<Millis>,
}

/// Returns the time since the earliest delayed job should have become ready; `None` if no job is
/// overdue.
pub fn overdue(next_due_at: Option<UnixMillis>, now: UnixMillis) -> Option<Millis> {
    next_due_at.filter(|at| *at < now).map(|at| now.since(at))
}

impl TopicPeek {
    /// Combines one topic in two buckets, or two topics.
    pub fn plus(self, other: Self) -> Self {
        Self {
            counts: self.counts.plus(other.counts),
            next_due_at: [self.next_due_at, other.next_due_at].into_iter().flatten().min(),
            oldest_ready_age: self.oldest_ready_age.max(other.oldest_ready_age),
            overdue: self.overdue.max(other.overdue),
        }
    }
}

/// Selection of jobs of one topic and state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobRange {
    /// Only jobs that match.
    pub filter: JobFilter,
    /// Only jobs after this position.
    pub after: Option<JobPosition>,
    /// Maximum number of jobs.
    pub limit: usize,
}

/// Consecutive periods of equal length, by which jobs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Start of the first step.
    pub from: UnixMillis,
    /// Length of each step; not zero.
    pub step: Millis,
    /// Number of steps.
    pub count: usize,
}

impl Steps {
    /// Returns the start of step `n`, counted from 0, which is also the end of the previous step.
    pub fn begin(&self, n: usize) -> UnixMillis {
        let length = self.step.get().saturating_mul(n as u64);
        self.from.after(Millis::new(length))
    }
}

/// Position in the order of a topic's jobs of one state: by time, then by the store's tie-breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPosition {
    /// Time by which the state's jobs are sorted.
    pub at: UnixMillis,
    /// Tie-breaker of jobs of the same time, in the store's own format.
    pub tie: String,
}

/// A page of jobs of one state, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPage {
    /// Readable jobs.
    pub jobs: Vec<Job>,
    /// Damaged jobs.
    pub damaged: Vec<Damaged>,
    /// Number of jobs that were compared with the filter.
    pub examined: usize,
    /// Position of the last examined job; `None` if no more jobs follow.
    pub next: Option<JobPosition>,
}

/// A page of the reserved jobs of a topic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReservedPage {
    /// Jobs of the page, each with its reservation.
    pub held: Vec<JobRef>,
    /// Cursor of the next page, in the store's own format; `None` on the last page.
    pub next: Option<String>,
}

/// A job that exists and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "DamagedJob")]
pub struct Damaged {
    /// Id of the job.
    pub id: JobId,
    /// Damage that the store found.
    pub reason: String,
}
