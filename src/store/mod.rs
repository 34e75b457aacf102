//! The contract between the queue and what keeps its jobs.
//!
//! Each method that writes is one *transition* for a batch of jobs of one bucket, atomic as a
//! whole towards crashes and other callers: a script on Redis, a transaction in the file store.
//! A single job is a batch of one. Replies stand in the order of the batch. Within a batch a
//! refused job is as it was and the others go on; a [`StoreError`] speaks for the whole batch and
//! says whether it was applied. Sending a transition twice is harmless or refused.
//!
//! Buckets are how jobs are divided, not how calls are: a call takes the batches of several buckets
//! ([`Parts`]), best of those on one server ([`SharedStore::representative`]), and each of them has its
//! own outcome. An error in one bucket leaves the others alone.
//!
//! A caller may be limited to some topics ([`Guarded`]): a job of another one is refused with
//! `NotFound`, and that is checked in the transition itself.
//!
//! Time is the store's alone: `now` below is its clock (or the one a test passes in).

pub mod file;
pub mod redis;

mod clock;
mod condition;
mod error;
mod hint;
mod layout;
mod location;
mod measured;
mod reads;
mod replies;
mod report;
mod requests;
mod settings;
mod shared;
mod steady;
mod tokens;
mod topics;
mod transition;

use std::sync::Arc;

use async_trait::async_trait;

use crate::job::{Bucket, Buckets, Refusal, ReservationKey};

pub use clock::{Clock, Now};
pub use condition::{Condition, DiskRoom};
pub use error::{Applied, OpenError, StoreError};
pub use hint::{Hint, Subscription};
pub use layout::{Agreed, Layout};
pub use location::Location;
pub use measured::Measured;
pub use reads::JobReads;
pub use replies::{Next, Peek, Placed, Popped, PromoteCounts, Promoted, PutOutcome, Transitioned};
pub use report::Report;
pub use requests::{
    Bury, Claim, Guarded, KickDead, PopRequest, Promote, Purge, Release, Target, Touch,
};
pub use settings::TopicSettingsStore;
pub use shared::{Lease, Servers, SharedStore};
pub use steady::ClockJumps;
pub use tokens::{StoredToken, StoredTokens, TokenChange, TokenChanged, TokenStore};
pub use topics::{
    ClaimPage, Counts, Damaged, JobPage, JobRange, Place, Steps, TopicPage, TopicPeek, Usage,
};
pub use transition::{Call, Command, JobTransitions, Outcome, Part, Transition, Verb, verb};

/// Most jobs in one batch, and most that one call promotes.
pub const MAX_BATCH: usize = 1000;

/// What one job of a batch gets: the reply, or why nothing changed.
pub type Reply<T> = Result<T, Refusal>;

/// How to open a store, whatever its kind.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many buckets; none takes what the store was made with, or the kind's default.
    pub buckets: Option<Buckets>,
    /// Whose time decides.
    pub clock: Clock,
    /// Whether to make the store if it does not exist.
    pub create: bool,
}

impl Options {
    /// Opens an existing store or makes a new one.
    pub fn new(buckets: Option<Buckets>, clock: Clock) -> Self {
        Self { buckets, clock, create: true }
    }

    /// Refuses to open a store that does not exist ([`OpenError::Missing`]).
    #[must_use]
    pub fn existing(self) -> Self {
        Self { create: false, ..self }
    }
}

/// A whole batch: its replies, or what went wrong for all of it.
pub type StoreResult<T> = Result<T, StoreError>;

/// What goes to some buckets in one call; no bucket twice.
pub type Parts<T> = Vec<(Bucket, T)>;

/// What became of each part of a call, in the order of the parts.
pub type StoreResults<T> = Vec<StoreResult<T>>;

/// What keeps the jobs: four parts by subject, and what concerns the store as a whole.
#[async_trait]
pub trait Store: JobTransitions + JobReads + TopicSettingsStore + TokenStore + 'static {
    /// How many buckets this store was made with.
    fn buckets(&self) -> Buckets;

    /// The key of the tags that clients get with their reservations: the same for every server of the
    /// store. Jobs are kept without tags.
    fn reservation_key(&self) -> Arc<ReservationKey>;

    /// How many jobs one call should have at most; more hold up others for too long.
    fn batch_limit(&self) -> usize;

    /// Accepts that jobs are lost, in every bucket: what the store has now is what it goes on with, at all
    /// servers. Replies how many buckets had something to accept. Files that were replaced under this
    /// process are refused with `Replaced`: it must be started anew to open them.
    async fn accept_loss(&self) -> StoreResult<u64>;

    /// Is the store reachable and fit to take writes?
    async fn check(&self) -> StoreResult<()>;

    /// What this process has noticed about the store so far; costs no call.
    fn condition(&self) -> Condition;

    /// The room on the disk of a store of this machine, as the system tells it now.
    fn disk_room(&self) -> Option<DiskRoom> {
        None
    }

    /// The part that only a store shared by several servers has.
    fn shared(&self) -> Option<&dyn SharedStore>;

    /// Ends the store's own tasks; what was acknowledged is safe without it.
    async fn close(&self);
}
