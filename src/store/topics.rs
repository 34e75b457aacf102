//! What a store tells of topics.

use super::Claim;
use crate::job::{Job, JobId, Millis, State, Topic, UnixMillis};

/// How many jobs of a topic are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPeek {
    /// Its jobs.
    pub counts: Counts,
    /// The earliest due time of a delayed job.
    pub next_due_at: Option<UnixMillis>,
    /// How long ago the earliest ready job fell due, by the store's clock.
    pub oldest_ready_age: Option<Millis>,
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Damaged {
    /// Its id.
    pub id: JobId,
    /// What is wrong with what the store has of it.
    pub reason: String,
}
