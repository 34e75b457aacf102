//! The contract between the queue and the stores that keep its jobs.
//!
//! Each method that writes is one *transition* for a batch of jobs of one bucket. The batch is
//! atomic: neither a crash nor another caller sees a part of it. A transition is a script on Redis
//! and a transaction in the file store. A single job is a batch of one job. Replies have the order
//! of the batch. A refused job stays unchanged and does not affect the rest of its batch. A
//! [`StoreError`] concerns the whole batch, and says whether the batch was applied. A transition
//! that is sent twice has the same effect as one, or is refused the second time.
//!
//! One call takes the batches of several buckets ([`Parts`]), preferably of buckets on one server
//! ([`SharedStore::representative`]), and each batch has its own result. An error in one bucket
//! does not affect the others.
//!
//! A caller may be limited to some topics ([`JobRequest`]): the transition itself refuses jobs of
//! other topics with `NotFound`.
//!
//! Only the store's clock counts: `now` in the descriptions of transitions is its time, or the time
//! that a test passes in.

pub mod file;
pub mod redis;

mod clock;
mod clock_watch;
mod condition;
mod error;
mod filter;
mod hint;
mod layout;
mod location;
mod measured;
mod reads;
mod replies;
mod report;
mod requests;
mod schedules;
mod settings;
mod shared;
mod tokens;
mod topics;
mod transition;

use std::sync::Arc;

use async_trait::async_trait;

use crate::job::{Bucket, Buckets, Millis, ReservationKey};

pub use clock::Clock;
pub use clock_watch::{ClockJumps, STEADY_FOR};
pub use condition::{Condition, DiskRoom};
pub use delay_queue_core::{
    Now,
    decide::{
        Bury, Delete, Finish, JobRef, Placed, PutOutcome, Release, Reply, Target, Transitioned,
    },
};
pub use error::{Applied, OpenError, StoreError};
pub use filter::{JobFilter, MAX_EXAMINED, Matched, Period, Selection};
pub use hint::{Hint, Subscription};
pub use layout::Layout;
pub use location::Location;
pub use measured::Measured;
pub use reads::JobReads;
pub use replies::{
    Lapsed, Next, Peek, Popped, PromoteCounts, Promoted, Readied, ReadyJobs, TopicCounts, counts_of,
};
pub use report::{Report, ScheduleReader};
pub use requests::{JobRequest, KickDead, PopRequest, Promote, Purge, Touch};
pub use schedules::{
    DueSchedules, Fired, Firing, MAX_READ_BYTES, MAX_SCHEDULES, NOT_UTF_8, NewSchedule,
    ScheduleChange, ScheduleChanged, SchedulePage, ScheduleStore, SchedulesFound, StoredSchedule,
};
pub use settings::{SettingCondition, TopicSettingsStore};
pub use shared::{Lease, Servers, SharedStore};
pub use tokens::{StoredToken, StoredTokens, TokenChange, TokenChanged, TokenStore};
pub use topics::{
    Counts, Damaged, JobPage, JobPosition, JobRange, ReservedPage, Steps, TopicPage, TopicPeek,
    Usage,
};
pub use transition::{Call, Command, JobTransitions, Outcome, Part, Transition, Verb, verb};

/// Maximum number of jobs in one batch, and of jobs that one call promotes.
pub const MAX_BATCH: usize = 1000;

/// Options for opening a store of any kind.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of buckets; `None` means the number of the existing store, or the default for its
    /// kind.
    pub buckets: Option<Buckets>,
    /// Source of the store's time.
    pub clock: Clock,
    /// Whether to create the store if it does not exist.
    pub create: bool,
}

impl Options {
    /// Returns options that open an existing store or create a new one.
    pub fn new(buckets: Option<Buckets>, clock: Clock) -> Self {
        Self { buckets, clock, create: true }
    }

    /// Returns options that refuse a store that does not exist ([`OpenError::Missing`]).
    #[must_use]
    pub fn existing(self) -> Self {
        Self { create: false, ..self }
    }
}

/// Result of a whole batch: its replies, or one error.
pub type StoreResult<T> = Result<T, StoreError>;

/// Parts of one call, each for another bucket.
pub type Parts<T> = Vec<(Bucket, T)>;

/// Results of the parts of a call, in their order.
pub type StoreResults<T> = Vec<StoreResult<T>>;

/// A store of jobs: five traits by subject, and methods on the store as a whole.
#[async_trait]
pub trait Store:
    JobTransitions + JobReads + TopicSettingsStore + ScheduleStore + TokenStore + 'static
{
    /// Returns the number of buckets that the store was created with.
    fn buckets(&self) -> Buckets;

    /// Returns the secret key that authenticates reservations: clients get each reservation with a
    /// tag computed from this key. All servers of the store have the same key.
    fn reservation_key(&self) -> Arc<ReservationKey>;

    /// Returns the maximum number of jobs that one call should have. A larger call would delay
    /// other calls too long.
    fn batch_limit(&self) -> usize;

    /// Accepts the loss of jobs in every bucket: all servers continue with the jobs that the store
    /// has now. Returns the number of buckets that had lost jobs. If the store's files were
    /// replaced while this process had them open, the call fails with `Replaced`: restart the
    /// server to open the new files.
    async fn accept_loss(&self) -> StoreResult<u64>;

    /// Checks that the store is available and accepts writes.
    async fn check(&self) -> StoreResult<()>;

    /// Returns the conditions that this process has noticed so far, without a call to the store.
    fn condition(&self) -> Condition;

    /// Returns the least time that a finished job of a schedule must be kept, so that a repeated
    /// firing is harmless; zero if a firing is one step.
    fn kept_after_firing(&self) -> Millis {
        Millis::ZERO
    }

    /// Returns the current room on the disk of a store on this machine.
    fn disk_room(&self) -> Option<DiskRoom> {
        None
    }

    /// Returns further methods if several servers can share this kind of store, otherwise `None`.
    fn shared(&self) -> Option<&dyn SharedStore>;

    /// Ends the store's own tasks. Acknowledged writes are safe without it.
    async fn close(&self);
}
