//! What transitions are asked to do.

use crate::job::{Change, JobId, Millis, Reservation, State, Topic, Topics};

/// What one consumer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopRequest {
    /// The topic to pop from.
    pub topic: Topic,
    /// The most jobs it takes.
    pub count: u16,
    /// A TTR instead of each job's own.
    pub ttr: Option<Millis>,
}

/// A job, and the reservation by which a caller acts on it; without one, by the id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub id: JobId,
    /// What its pop returned.
    pub reservation: Option<Reservation>,
    /// The topics that the caller may reach.
    pub topics: Topics,
}

/// A job by its id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The job.
    pub id: JobId,
    /// The topics that the caller may reach.
    pub topics: Topics,
}

/// What acts on a job that may be of any topic.
pub trait Guarded {
    /// The topics that the caller may reach: a job of another one does not exist to it.
    fn topics(&self) -> &Topics;
}

macro_rules! guarded {
    ($($type:ty: $($field:tt).+;)+) => {
        $(impl Guarded for $type {
            fn topics(&self) -> &Topics {
                &self.$($field).+
            }
        })+
    };
}

guarded! {
    Claim: topics;
    Target: topics;
    (Target, Change): 0.topics;
    Release: held.topics;
    Touch: held.topics;
    Bury: held.topics;
}

/// A job to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// How long until its next attempt; by default its backoff decides.
    pub delay: Option<Millis>,
    /// Why it was not finished.
    pub error: Option<String>,
}

/// A reservation to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// The TTR from now on; by default the one in force.
    pub ttr: Option<Millis>,
}

/// A job to be buried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bury {
    /// Which job, and by which reservation.
    pub held: Claim,
    /// Why it is buried.
    pub error: Option<String>,
}

/// How much a promote does in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promote {
    /// The most deadlines. Buckets that are one step for the store share the number.
    pub limit: usize,
}

/// Jobs to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Their topic.
    pub topic: Topic,
    /// Their state.
    pub state: State,
    /// The most jobs.
    pub limit: usize,
}

/// Dead jobs to be kicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KickDead {
    /// Their topic.
    pub topic: Topic,
    /// The most jobs.
    pub limit: usize,
}
