//! Hints that servers on one store publish to each other.
//!
//! Hints speed up delivery and save calls; any of them may be lost, and no job depends on one.

use tokio::sync::mpsc;

use super::ReadyJobs;
use crate::job::{Bucket, Topic};

/// A message to the other servers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A timer has polled the bucket: other servers need not poll it for a while.
    Polled(Bucket),
    /// Jobs of a topic are ready, and no consumer waits for them at the sending server.
    Ready {
        /// Bucket of the jobs.
        bucket: Bucket,
        /// Topic of the jobs.
        topic: Topic,
        /// The ready jobs.
        jobs: ReadyJobs,
    },
    /// Topic settings have changed.
    Settings,
    /// Schedules have changed.
    Schedules,
}

/// Receiver of the hints of other servers.
pub type Subscription = mpsc::Receiver<Hint>;
