//! Decisions of transitions, one file a verb.
//!
//! A decision takes the job as a store has loaded it, the time, and a request; it returns an
//! [`Edit`], or the reason why nothing changes. The state table ([`next`](crate::job::next)) says
//! which events a state refuses. A store applies the edit if the job is still what was loaded.

mod bury;
mod change;
mod delete;
mod edit;
mod finish;
mod kick;
mod known;
mod overdue;
mod put;
mod release;
mod request;
mod restore;

pub use bury::{bury, bury_damaged};
pub use change::change;
pub use delete::delete;
pub use edit::{AttemptEdit, Edit, Ended, Place, Transitioned};
pub use finish::finish;
pub use kick::kick;
pub use known::{Attempts, Known};
pub use overdue::{overdue, quarantined};
pub use put::{Placed, PutOutcome, put};
pub use release::release;
pub use request::{Bury, Delete, Finish, JobRef, Release, Target};
pub use restore::restore;

/// Result of one job of a batch: the reply, or the reason why nothing changed.
pub type Reply<T> = Result<T, crate::job::Refusal>;

/// Error of an attempt whose TTR has ended.
pub const TTR_ENDED: &str = "ttr ended";
/// Error of a job that expired.
pub const JOB_EXPIRED: &str = "expired";
/// Error of a job whose record is damaged.
pub const JOB_DAMAGED: &str = "its record is damaged";
