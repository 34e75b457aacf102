//! Errors of schedules.

use thiserror::Error;

use crate::{
    job::ScheduleName,
    queue::{Full, QueueError},
    store::{MAX_SCHEDULES, StoreError},
};

/// Why an operation on a schedule failed.
#[derive(Debug, Error)]
pub enum ScheduleError {
    /// There is no schedule of this name.
    #[error("there is no schedule {0:?}")]
    NotFound(ScheduleName),
    /// The store has as many schedules as it may have.
    #[error("the store has {MAX_SCHEDULES} schedules, which is the limit; delete some")]
    TooMany,
    /// Other clients have changed the schedule again and again.
    #[error("other clients are changing the schedule {0:?}; try again")]
    Contended(ScheduleName),
    /// The stored text is damaged, or a later version wrote it.
    #[error(
        "the schedule {0:?} is stored in a form that this version cannot read ({1}); set it again"
    )]
    Unreadable(ScheduleName, String),
    /// The topic or the store has no room for a job.
    #[error("the topic or the store is full")]
    Full(Full),
    /// The queue refused a job.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl From<StoreError> for ScheduleError {
    fn from(error: StoreError) -> Self {
        Self::Queue(QueueError::Store(error))
    }
}
