//! Requests of transitions.

use delay_queue_core::decide::{Bury, Delete, Finish, JobRef, Release, Target};

use super::Firing;
use crate::job::{Change, Consumer, Job, JobId, Millis, NewJob, State, Topic, Topics};

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

/// A request that names one job.
pub trait JobRequest {
    /// Returns the id of the job.
    fn id(&self) -> &JobId;

    /// Returns the topics that the caller may access. For this caller, jobs of other topics do not
    /// exist.
    fn topics(&self) -> &Topics {
        &Topics::ALL
    }

    /// Returns whether the transition acts on a reserved job but gives only its id.
    fn lacks_reservation(&self) -> bool {
        false
    }
}

impl<J: JobRequest> JobRequest for &J {
    fn id(&self) -> &JobId {
        (**self).id()
    }

    fn topics(&self) -> &Topics {
        (**self).topics()
    }

    fn lacks_reservation(&self) -> bool {
        (**self).lacks_reservation()
    }
}

impl JobRequest for Target {
    fn id(&self) -> &JobId {
        &self.id
    }

    fn topics(&self) -> &Topics {
        &self.topics
    }
}

impl JobRequest for JobRef {
    fn id(&self) -> &JobId {
        &self.id
    }

    fn topics(&self) -> &Topics {
        &self.topics
    }

    fn lacks_reservation(&self) -> bool {
        self.reservation.is_none()
    }
}

/// Requests that name their job by one of their fields.
macro_rules! requests {
    ($($type:ty: $field:tt;)+) => {
        $(impl JobRequest for $type {
            fn id(&self) -> &JobId {
                self.$field.id()
            }

            fn topics(&self) -> &Topics {
                self.$field.topics()
            }

            fn lacks_reservation(&self) -> bool {
                self.$field.lacks_reservation()
            }
        })+
    };
}

requests! {
    Finish: held;
    Release: held;
    Touch: held;
    Bury: held;
    Delete: job;
    (Target, Change): 0;
    Firing: job;
}

impl JobRequest for NewJob {
    fn id(&self) -> &JobId {
        &self.id
    }
}

/// A job from another store.
impl JobRequest for Job {
    fn id(&self) -> &JobId {
        &self.id
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
