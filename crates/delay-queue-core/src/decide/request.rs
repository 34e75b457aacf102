//! Requests, as callers make them of a store.

use bytes::Bytes;

use crate::job::{JobId, Millis, PoppedJob, Reservation, States, Topics};

/// A job on which a caller acts by its id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Id of the job.
    pub id: JobId,
    /// Topics that the caller may access.
    pub topics: Topics,
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

/// A job to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Job and reservation.
    pub held: JobRef,
    /// JSON text to be kept with the job.
    pub result: Option<Bytes>,
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

/// A job to be buried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bury {
    /// Job and reservation.
    pub held: JobRef,
    /// Error text: why the job is buried.
    pub error: Option<String>,
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

impl Delete {
    /// Returns how long the id stays taken; `None` if it becomes free at once.
    pub fn remembered(&self) -> Option<Millis> {
        self.remember.filter(|time| !time.is_zero())
    }
}

impl JobRef {
    /// Returns a popped job with its reservation, for a caller that may access every topic.
    pub fn from_popped(job: &PoppedJob) -> Self {
        Self { id: job.id.clone(), reservation: Some(job.reservation), topics: Topics::ALL }
    }
}

impl Release {
    /// Returns a counted release without an error, after the delay of the job's backoff.
    pub fn new(held: JobRef) -> Self {
        Self { held, delay: None, error: None, is_uncounted: false, body: None }
    }
}
