//! What a store tells of topics.

use super::Claim;
use crate::job::{Job, JobId, Millis, State, Topic, UnixMillis};

/// How many jobs of a topic are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "JobCounts")]
pub struct Counts {
    /// Wait for their due time.
    pub delayed: u64,
    /// May be popped.
    pub ready: u64,
    /// Are held.
    pub reserved: u64,
    /// Are kept, and not tried any more.
    pub dead: u64,
}

impl Counts {
    /// The count of one state.
    pub fn of(&self, state: State) -> u64 {
        match state {
            State::Delayed => self.delayed,
            State::Ready => self.ready,
            State::Reserved => self.reserved,
            State::Dead => self.dead,
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            delayed: self.delayed + other.delayed,
            ready: self.ready + other.ready,
            reserved: self.reserved + other.reserved,
            dead: self.dead + other.dead,
        }
    }
}

/// How much there is in a topic or in the whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Jobs in any state.
    pub jobs: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Usage {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What is left without the other; never below nothing.
    pub fn minus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_sub(other.jobs),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Which topics to tell of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPage {
    /// Only names that begin so.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<Topic>,
    /// At most so many.
    pub limit: usize,
}

/// One topic in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPeek {
    /// Its jobs.
    pub counts: Counts,
    /// The earliest due time of a delayed job.
    pub next_due_at: Option<UnixMillis>,
    /// How long ago the earliest ready job fell due, by the store's clock.
    pub oldest_ready_age: Option<Millis>,
    /// How long ago a delayed job should have become ready, by the same clock; none if none should.
    pub overdue: Option<Millis>,
}

/// How long ago a job that is still delayed should have become ready.
pub fn overdue(next_due_at: Option<UnixMillis>, now: UnixMillis) -> Option<Millis> {
    next_due_at.filter(|at| *at < now).map(|at| now.since(at))
}

impl TopicPeek {
    /// Both together: one topic in two buckets, or two topics.
    pub fn plus(self, other: Self) -> Self {
        Self {
            counts: self.counts.plus(other.counts),
            next_due_at: [self.next_due_at, other.next_due_at].into_iter().flatten().min(),
            oldest_ready_age: self.oldest_ready_age.max(other.oldest_ready_age),
            overdue: self.overdue.max(other.overdue),
        }
    }
}

/// Which jobs of one topic and state to tell of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobRange {
    /// Only jobs whose time in the state's sorted set is this or later.
    pub from: Option<UnixMillis>,
    /// Only jobs whose time there is earlier than this.
    pub before: Option<UnixMillis>,
    /// Only jobs behind this place.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: usize,
}

/// Steps of equal length, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// When the first one begins.
    pub from: UnixMillis,
    /// How long each is; not zero.
    pub step: Millis,
    /// How many.
    pub count: usize,
}

impl Steps {
    /// When the n-th begins, or the one before it ends.
    pub fn begin(&self, n: usize) -> UnixMillis {
        let length = self.step.get().saturating_mul(n as u64);
        self.from.after(Millis::new(length))
    }
}

/// A place in the order of a topic's jobs of one state: by time, then as the store breaks ties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The time in the state's sorted set.
    pub at: UnixMillis,
    /// What tells jobs of the same time apart; the store's own text.
    pub tie: String,
}

/// Some jobs of one state, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPage {
    /// The jobs that can be read.
    pub jobs: Vec<Job>,
    /// Those that cannot.
    pub damaged: Vec<Damaged>,
    /// The place of the last job looked at; none if there are no more after it.
    pub next: Option<Place>,
}

/// Some of the reserved jobs of a topic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimPage {
    /// The jobs, each with its reservation.
    pub held: Vec<Claim>,
    /// Where the next step begins, in the store's own words; none at the end.
    pub next: Option<String>,
}

/// A job that is there and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "DamagedJob")]
pub struct Damaged {
    /// Its id.
    pub id: JobId,
    /// What is wrong with what the store has of it.
    pub reason: String,
}
