//! Requests of transitions.

use delay_queue_core::decide::{Bury, Delete, Finish, JobRef, Release, Target};

use crate::job::{Change, Consumer, Millis, State, Topic, Topics};

/// Request of one consumer for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopRequest {
    /// Topic to pop from.
    pub topic: Topic,
    /// Maximum number of jobs.
    pub count: u16,
    /// TTR instead of each job's own.
    pub ttr: Option<Millis>,
    /// Name that the consumer gave itself.
    pub consumer: Option<Consumer>,
}

/// A request for a job whose topic the caller does not name.
pub trait Guarded {
    /// Returns the topics that the caller may access. For this caller, jobs of other topics do not
    /// exist.
    fn topics(&self) -> &Topics;
}

impl<J: Guarded> Guarded for &J {
    fn topics(&self) -> &Topics {
        (**self).topics()
    }
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
    JobRef: topics;
    Target: topics;
    Delete: job.topics;
    (Target, Change): 0.topics;
    Finish: held.topics;
    Release: held.topics;
    Touch: held.topics;
    Bury: held.topics;
}

/// A reservation to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// Job and reservation.
    pub held: JobRef,
    /// TTR from now on; by default the current one.
    pub ttr: Option<Millis>,
}

/// Part of a promote for one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promote {
    /// Maximum number of deadlines. Buckets that the store promotes in one step share the limit.
    pub limit: usize,
}

/// Jobs to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Topic of the jobs.
    pub topic: Topic,
    /// State of the jobs.
    pub state: State,
    /// Maximum number of jobs.
    pub limit: usize,
}

/// Dead jobs to be kicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KickDead {
    /// Topic of the jobs.
    pub topic: Topic,
    /// Maximum number of jobs.
    pub limit: usize,
}
