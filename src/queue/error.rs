//! Why the queue did not do what it was asked.

use thiserror::Error;

use crate::{job::Refusal, store::StoreError};

/// What a caller of the queue gets instead of an answer.
#[derive(Debug, Clone, Error)]
pub enum QueueError {
    /// The job's state forbids it; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// This server demands a reservation, and none was given; nothing was changed.
    #[error("failed to act by id alone: this server demands a reservation")]
    ReservationRequired,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for QueueError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
