//! Errors of the queue.

use thiserror::Error;

use crate::{job::Refusal, store::StoreError};

/// Why an operation of the queue failed.
#[derive(Debug, Clone, Error)]
pub enum QueueError {
    /// The state of the job forbids the operation; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// This server demands a reservation, but the request gave none; nothing was changed.
    #[error("failed to act by id alone: this server demands a reservation")]
    ReservationRequired,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for QueueError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
