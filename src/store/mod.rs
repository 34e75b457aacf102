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
mod replies;
mod report;
mod requests;
mod shared;
mod steady;
mod tokens;
mod topics;

use std::sync::Arc;

use async_trait::async_trait;

use crate::job::{
    Bucket, Buckets, Change, Job, Millis, NewJob, Nonce, PolicyFields, Refusal, ReservationKey,
    Schedule, SettingsNews, State, Topic, UnixMillis,
};

pub use clock::{Clock, Now};
pub use condition::{Condition, DiskRoom};
pub use error::{Applied, OpenError, StoreError};
pub use hint::{Hint, Subscription};
pub use layout::{Agreed, Layout};
pub use location::Location;
pub use measured::Measured;
pub use replies::{Next, Peek, Placed, Popped, PromoteCounts, Promoted, PutOutcome, Transitioned};
pub use report::Report;
pub use requests::{Bury, Claim, Guarded, PopRequest, Release, Target, Touch};
pub use shared::{Lease, Servers, SharedStore};
pub use steady::ClockJumps;
pub use tokens::{StoredToken, StoredTokens, TokenChange, TokenChanged};
pub use topics::{
    ClaimPage, Counts, Damaged, JobPage, JobRange, Place, Steps, TopicPage, TopicPeek, Usage,
};

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

/// What goes to some buckets in one call; no bucket twice.
pub type Parts<T> = Vec<(Bucket, T)>;

/// What became of each part of a call, in the order of the parts.
pub type StoreResults<T> = Vec<StoreResult<T>>;

/// What keeps the jobs.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// How many buckets this store was made with.
    fn buckets(&self) -> Buckets;

    /// The key of the tags that clients get with their reservations: the same for every server of the
    /// store. Jobs are kept without tags.
    fn reservation_key(&self) -> Arc<ReservationKey>;

    /// How many jobs one call should have at most; more hold up others for too long.
    fn batch_limit(&self) -> usize;

    /// absent → delayed or ready. A living id is refused with `Exists`, or kept or replaced, as the
    /// job asks, if the living job has the same topic; a reserved job is never replaced (`Reserved`). A due time beyond ten years from
    /// now is `DueTooFar`.
    async fn put(&self, parts: Parts<Vec<NewJob>>) -> StoreResults<Vec<Reply<Placed>>>;

    /// absent → the state that the job says, with its times, attempts, reservation and error: as
    /// [`list`](Self::list) read it in another store. A living id is refused with `Exists`. Jobs
    /// that are ordered by the order of their arrival arrive in that of the batch.
    async fn restore(&self, bucket: Bucket, jobs: Vec<Job>) -> StoreResult<Vec<Reply<()>>>;

    /// ready → reserved, for up to `count` jobs of each want, in due order. The attempt is counted
    /// and the reservation written in the same transition. Deadline: now + TTR.
    async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>>;

    /// reserved → ready, before what was popped: the reservation and its attempt never were.
    /// Refused with `ReservationLost` unless the reservation still holds the job. Done also while
    /// nothing confirms writes: else attempts would be spent on what reached no consumer.
    async fn unpop(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>>;

    /// Reads who holds the reserved jobs of a topic: one step of a scan from `cursor` on, which tells
    /// of every job that is reserved from its beginning to its end, perhaps twice.
    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ClaimPage>;

    /// popped → gone. Takes the last reservation also after its TTR expired, in any state, unless a
    /// reschedule ended it; see
    /// [`Reservation::check`](crate::job::Reservation::check). Replies the topic it had.
    async fn finish(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>>;

    /// popped → ready or delayed by the given delay, else by the job's backoff; dead if the
    /// attempts are spent. The reservation ends. Dead stays dead. By id alone only what is reserved
    /// (`NotReserved`).
    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>>;

    /// reserved → reserved, deadline now + TTR. A reservation past its end is `ReservationLost`.
    async fn touch(&self, parts: Parts<Vec<Touch>>) -> StoreResults<Vec<Reply<UnixMillis>>>;

    /// popped → dead, with an error text. The reservation ends.
    async fn bury(&self, parts: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>>;

    /// delayed, dead → ready now; a dead job's attempts start from zero. `Reserved` is refused.
    async fn kick(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<Topic>>>;

    /// any → gone. Replies the state the job was in.
    async fn delete(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<State>>>;

    /// delayed, ready → delayed, ready: another time or other contents. Ends the hold of a consumer
    /// whose TTR expired. `Reserved` and `Dead` are refused, a due time beyond ten years is `DueTooFar`. `max_attempts` follows another backoff
    /// as [`Change::with_attempts`] says. Replies the job as it is then.
    async fn reschedule(
        &self,
        parts: Parts<Vec<(Target, Change)>>,
    ) -> StoreResults<Vec<Reply<Job>>>;

    /// Deadlines that have come, at most `limit` of them in each step that is one for the store, from the sets whose earliest is first: delayed → ready;
    /// reserved → ready, delayed (backoff) or dead (attempts spent); dead → gone (retention over).
    /// What follows is computed from the deadline, not from now: it does not matter when, where or
    /// how often this runs. After a jump of the store's clock forward, deadlines are judged by the
    /// clock before it for a while ([`ClockJumps`]).
    async fn promote(&self, buckets: Vec<Bucket>, limit: usize) -> StoreResults<Promoted>;

    /// Reads how many jobs of each of `topics` are ready and, with `deadlines`, how far the next
    /// deadline is.
    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek>;

    /// Reads one job; none to a caller that may not reach it, whether it can be read or not.
    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>>;

    /// Reads topics that have jobs in this bucket, in the order of their names.
    async fn topics(&self, bucket: Bucket, page: TopicPage)
    -> StoreResult<Vec<(Topic, TopicPeek)>>;

    /// Reads one topic; costs the same however many jobs it has.
    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek>;

    /// Reads how many jobs a topic has in all buckets, and how many bytes their bodies have. A store
    /// may round each body up to 16 bytes, and may estimate the bytes of many jobs from some of them.
    async fn weigh(&self, topic: Topic) -> StoreResult<Usage>;

    /// Reads how many jobs the store has, and how many bytes it takes: of its file what is in use, of
    /// a shared server all that is in its memory.
    async fn usage(&self) -> StoreResult<Usage>;

    /// Counts the delayed jobs of a topic that fall due in each of these steps.
    async fn due_counts(&self, bucket: Bucket, topic: Topic, steps: Steps)
    -> StoreResult<Vec<u64>>;

    /// Reads jobs of one topic and state, in order. Jobs that
    /// stay where they are are neither skipped nor repeated, whatever others do meanwhile. A page
    /// may have fewer than there are: `next` says whether there may be more. A job that cannot be
    /// read is told with the reason.
    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage>;

    /// any → gone, for the first `limit` jobs of one topic and state. Replies how many.
    async fn purge(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        limit: usize,
    ) -> StoreResult<u64>;

    /// dead → ready now, attempts from zero, for the `limit` jobs of a topic that died first.
    /// Replies how many.
    async fn kick_dead(&self, bucket: Bucket, topic: Topic, limit: usize) -> StoreResult<u64>;

    /// A paused topic hands out nothing; it stays so until it is resumed. Stores only keep this
    /// word: the queue obeys it.
    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()>;

    /// Pauses a topic until a time, or for a span from now on; replies when that ends.
    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis>;

    /// Resumes a topic that is paused until `until`, once that time has come, unless its pause was
    /// changed since. Replies how far that time is.
    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis>;

    /// Sets, or takes away, what applies to new jobs of a topic that do not say.
    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()>;

    /// Reads what has changed of the settings of topics since version `known`; none if nothing has.
    /// A store of several servers answers what has changed, unless that is too much or it does not
    /// know that version (0 is known to none): then it is everything.
    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>>;

    /// Reads the access tokens, unless they are still those of version `known`.
    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>>;

    /// Makes or revokes an access token. Once it is done its version is another one, also if the caller
    /// has gone, or hears that the outcome is unknown.
    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged>;

    /// Notes when access tokens were used last, by their names: at most [`MAX_BATCH`] in one call. A name
    /// without a token is passed over. No new version.
    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()>;

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

/// A whole batch: its replies, or what went wrong for all of it.
pub type StoreResult<T> = Result<T, StoreError>;
