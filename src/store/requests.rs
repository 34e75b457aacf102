//! Requests of transitions.

use bytes::Bytes;

use crate::job::{
    Change, Consumer, JobId, Millis, PoppedJob, Reservation, State, States, Topic, Topics,
};

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

/// A job, and the reservation with which a caller acts on it; without a reservation, the caller
/// acts by the id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// Id of the job.
    pub id: JobId,
    /// Reservation that the pop returned.
    pub reservation: Option<Reservation>,
    /// Topics that the caller may access.
    pub topics: Topics,
}

/// A job on which a caller acts by its id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Id of the job.
    pub id: JobId,
    /// Topics that the caller may access.
    pub topics: Topics,
}

/// A job to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The job.
    pub job: Target,
    /// The states in which it is deleted; by default every state.
    pub states: Option<States>,
    /// How long its id stays taken; by default not at all.
    pub remember: Option<Millis>,
}

/// A job to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Job and reservation.
    pub held: JobRef,
    /// JSON text to be kept with the job.
    pub result: Option<Bytes>,
}

/// A request for a job whose topic the caller does not name.
pub trait Guarded {
    /// Returns the topics that the caller may access. For this caller, jobs of other topics do not
    /// exist.
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
    JobRef: topics;
    Target: topics;
    Delete: job.topics;
    (Target, Change): 0.topics;
    Finish: held.topics;
    Release: held.topics;
    Touch: held.topics;
    Bury: held.topics;
}

/// A job to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Job and reservation.
    pub held: JobRef,
    /// Delay of the next attempt; by default that of the job's backoff.
    pub delay: Option<Millis>,
    /// Error text: why the job was not finished.
    pub error: Option<String>,
    /// Whether the attempt does not count. Such an attempt is never the last one, and its default
    /// delay is that of the previous attempt.
    pub is_uncounted: bool,
    /// JSON text that replaces the body.
    pub body: Option<Bytes>,
}

impl JobRef {
    /// Returns a popped job with its reservation, for a caller that may access every topic.
    pub fn of(job: &PoppedJob) -> Self {
        Self { id: job.id.clone(), reservation: Some(job.reservation), topics: Topics::ALL }
    }
}

impl Release {
    /// Returns a counted release without an error, after the delay of the job's backoff.
    pub fn of(held: JobRef) -> Self {
        Self { held, delay: None, error: None, is_uncounted: false, body: None }
    }
}

/// A reservation to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// Job and reservation.
    pub held: JobRef,
    /// TTR from now on; by default the current one.
    pub ttr: Option<Millis>,
}

/// A job to be buried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bury {
    /// Job and reservation.
    pub held: JobRef,
    /// Error text: why the job is buried.
    pub error: Option<String>,
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
