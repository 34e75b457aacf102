//! Jobs that requests bring, as records.

use bytes::Bytes;
use delay_queue_core::Now;

use crate::{
    job::{Job, NewJob, Policy, Topic, UnixMillis},
    store::redis::codec::{
        Attempt, finished_header, history_text, record_header, separate_history,
    },
};

/// A job that a request brings.
#[derive(Debug, Clone, Copy)]
pub enum Arrival<'a> {
    Put(&'a NewJob),
    /// A job from another store.
    Restore(&'a Job),
}

/// The records of such a job. A text is empty if there is none.
pub struct Records {
    pub header: Vec<u8>,
    pub body: Bytes,
    pub attempt: String,
    pub history: String,
    pub policy: Policy,
}

impl Arrival<'_> {
    pub fn topic(&self) -> &Topic {
        match self {
            Self::Put(job) => &job.topic,
            Self::Restore(job) => &job.topic,
        }
    }

    /// Returns whether the job is delayed only until its due time, so that it is ready if that has
    /// passed. Otherwise a timer decides.
    pub fn follows_clock(&self) -> bool {
        matches!(self, Self::Put(_))
    }

    /// Formats the job; `at` is the due time of a put.
    pub fn records(&self, now: Now, at: UnixMillis) -> Records {
        match self {
            Self::Put(put) => {
                let mut put = NewJob::clone(put);
                put.policy.expire_from(at);
                Records {
                    header: record_header(&put, now.floor),
                    body: put.body,
                    attempt: String::new(),
                    history: String::new(),
                    policy: put.policy,
                }
            }
            Self::Restore(job) => restored(job),
        }
    }
}

fn restored(job: &Job) -> Records {
    let policy = job.policy.clone();
    if let Some(ending) = &job.ending {
        return Records {
            header: finished_header(job, ending),
            body: ending.result.clone().unwrap_or_default(),
            attempt: String::new(),
            history: separate_history(job, ending),
            policy,
        };
    }
    let put = job.unpopped();
    Records {
        header: record_header(&put, job.created_at),
        attempt: Attempt::text_of(job, &put),
        body: put.body,
        history: history_text(job),
        policy,
    }
}
