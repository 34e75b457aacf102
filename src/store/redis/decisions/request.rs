//! A request that `delay-queue-core` decides, and its answer.

use bytes::Bytes;
use delay_queue_core::{
    Now,
    decide::{Edit, Known},
};

use super::{arrival::Arrival, loaded::Loaded};
use crate::store::{JobRequest, Reply};

/// A request to change one job.
pub trait Request: JobRequest + Sync {
    /// The answer to the caller if the change is made.
    type Answer: Answer<Self>;

    /// Whether its caller waits for the confirmation that `store.ack` demands.
    const IS_CONFIRMED: bool = true;

    /// Whether it may add a job, which a Redis that may lose it refuses.
    const ADDS_JOBS: bool = false;

    /// Returns the job that the request brings. A request that brings none needs a job that exists.
    fn arrival(&self) -> Option<Arrival<'_>> {
        None
    }

    /// Decides the request; without an edit, the job stays as it is. `living` is the job that has
    /// the id, which may be free for the one that the request brings.
    ///
    /// # Errors
    /// `NotFound`, and those of its decision.
    fn decide(&self, living: Option<&Known<'_>>, now: Now) -> Reply<Option<Edit>>;

    /// Returns whether a job stays in the set of the jobs that expire only if it is to expire.
    fn is_expiry(&self) -> bool {
        false
    }

    /// Returns the body that the request brings.
    fn body(&self) -> Option<&Bytes> {
        None
    }

    /// Returns the number of bytes that the request brings.
    fn length(&self) -> usize {
        self.body().map_or(0, Bytes::len)
    }
}

/// The answer about an edit.
pub trait Answer<R: ?Sized>: Sized + Send + Sync {
    /// Whether bodies must be loaded for it.
    const HAS_BODY: bool = false;

    /// # Errors
    /// `Damaged` if the job lacks the record that the answer shows.
    fn new(request: &R, loaded: &Loaded<'_>, job: &Known<'_>, edit: &Edit) -> Reply<Self>;

    /// Follows a due time that passed before the edit was written.
    fn set_ready(&mut self) {}
}
