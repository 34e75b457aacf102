//! A store whose calls are counted, timed and traced, whatever its kind.
//!
//! Each method passes its call on, and says of one that only reads that it has changed nothing. What a call is counted by was found at the start, so counting
//! costs a fraction of a microsecond a call.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use tracing::Instrument;

use super::{
    Bury, Claim, ClaimPage, Condition, DiskRoom, JobPage, JobRange, Parts, Peek, Placed,
    PopRequest, Popped, Promoted, Release, Reply, SharedStore, Steps, Store, StoreError,
    StoreResult, StoreResults, StoredTokens, Target, TokenChange, TokenChanged, TopicPage,
    TopicPeek, Touch, Transitioned, Usage,
};
use crate::{
    job::{
        Bucket, Buckets, Change, Job, Millis, NewJob, Nonce, PolicyFields, ReservationKey,
        Schedule, SettingsNews, State, Topic, UnixMillis,
    },
    metrics::SECONDS,
    traces,
};

/// Bounds of the histogram of jobs a call.
const JOBS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0];

/// A store that is measured.
pub struct Measured {
    store: Arc<dyn Store>,
    /// By [`Call`].
    calls: Vec<Meter>,
}

/// A method of a store.
#[derive(Clone, Copy)]
enum Call {
    Put,
    Restore,
    Pop,
    Unpop,
    Held,
    Finish,
    Release,
    Touch,
    Bury,
    Kick,
    Delete,
    Reschedule,
    Promote,
    Peek,
    Get,
    Topics,
    Topic,
    Weigh,
    Usage,
    DueCounts,
    List,
    Purge,
    KickDead,
    SetPaused,
    PauseUntil,
    EndPause,
    SetDefaults,
    Settings,
    Tokens,
    ChangeToken,
    NoteTokenUses,
    AcceptLoss,
    Check,
}

/// Their labels, in the same order.
const NAMES: [&str; Call::Check as usize + 1] = [
    "put",
    "restore",
    "pop",
    "unpop",
    "held",
    "finish",
    "release",
    "touch",
    "bury",
    "kick",
    "delete",
    "reschedule",
    "promote",
    "peek",
    "get",
    "topics",
    "topic",
    "weigh",
    "usage",
    "due_counts",
    "list",
    "purge",
    "kick_dead",
    "set_paused",
    "pause_until",
    "end_pause",
    "set_defaults",
    "settings",
    "tokens",
    "change_token",
    "note_token_uses",
    "accept_loss",
    "check",
];

/// What one method is counted by.
struct Meter {
    seconds: Histogram,
    errors: Counter,
    jobs: Option<Histogram>,
}

impl Measured {
    /// Measures the calls that go through what it answers; their metrics are in `registry`.
    pub fn new(store: Arc<dyn Store>, registry: &mut Registry) -> Self {
        type Labels = [(&'static str, &'static str); 1];
        let seconds = || Histogram::new(SECONDS);
        let seconds = Family::<Labels, Histogram, _>::new_with_constructor(seconds);
        let jobs = || Histogram::new(JOBS);
        let jobs = Family::<Labels, Histogram, _>::new_with_constructor(jobs);
        let errors = Family::<Labels, Counter>::default();
        let calls = NAMES.iter().enumerate().map(|(call, name)| {
            let labels = [("call", *name)];
            Meter {
                seconds: seconds.get_or_create_owned(&labels),
                errors: errors.get_or_create_owned(&labels),
                jobs: is_of_jobs(call).then(|| jobs.get_or_create_owned(&labels)),
            }
        });
        let calls = calls.collect();
        let help = "Time of a call of the store";
        registry.register("store_call_duration_seconds", help, seconds);
        let help = "Jobs that one call of the store was made for";
        registry.register("store_call_jobs", help, jobs);
        let help = "Calls of the store that failed, at least for some buckets";
        registry.register("store_call_errors", help, errors);
        Self { store, calls }
    }

    async fn one<T>(
        &self,
        call: Call,
        made: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let (meter, begin) = (&self.calls[call as usize], Instant::now());
        let result = made.instrument(traces::call(NAMES[call as usize], None)).await;
        meter.count(begin, result.is_err());
        result
    }

    /// The same for a call that only reads.
    async fn read<T>(
        &self,
        call: Call,
        made: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.one(call, made).await.map_err(StoreError::of_read)
    }

    /// The same for a call on several buckets, for so many jobs.
    async fn each<T>(
        &self,
        call: Call,
        jobs: usize,
        made: impl Future<Output = StoreResults<T>>,
    ) -> StoreResults<T> {
        let (meter, begin) = (&self.calls[call as usize], Instant::now());
        let span = traces::call(NAMES[call as usize], Some(jobs));
        let results = made.instrument(span).await;
        meter.count(begin, results.iter().any(Result::is_err));
        if let Some(histogram) = &meter.jobs {
            histogram.observe(jobs as f64);
        }
        results
    }
}

/// Whether a call is one of the transitions of a batch of jobs that clients name.
fn is_of_jobs(call: usize) -> bool {
    let first = [Call::Put, Call::Pop, Call::Unpop];
    first.iter().any(|&each| each as usize == call)
        || (Call::Finish as usize..=Call::Reschedule as usize).contains(&call)
}

impl Meter {
    fn count(&self, begin: Instant, failed: bool) {
        self.seconds.observe(begin.elapsed().as_secs_f64());
        if failed {
            self.errors.inc();
        }
    }
}

fn jobs<T>(parts: &Parts<Vec<T>>) -> usize {
    parts.iter().map(|(_, jobs)| jobs.len()).sum()
}

fn wanted(parts: &Parts<(Nonce, Vec<PopRequest>)>) -> usize {
    let all = parts.iter().flat_map(|(_, (_, wants))| wants);
    all.map(|want| usize::from(want.count)).sum()
}

#[async_trait]
impl Store for Measured {
    fn buckets(&self) -> Buckets {
        self.store.buckets()
    }

    fn reservation_key(&self) -> Arc<ReservationKey> {
        self.store.reservation_key()
    }

    fn batch_limit(&self) -> usize {
        self.store.batch_limit()
    }

    async fn put(&self, parts: Parts<Vec<NewJob>>) -> StoreResults<Vec<Reply<Placed>>> {
        self.each(Call::Put, jobs(&parts), self.store.put(parts)).await
    }

    async fn restore(&self, bucket: Bucket, jobs: Vec<Job>) -> StoreResult<Vec<Reply<()>>> {
        self.one(Call::Restore, self.store.restore(bucket, jobs)).await
    }

    async fn pop(&self, parts: Parts<(Nonce, Vec<PopRequest>)>) -> StoreResults<Vec<Popped>> {
        self.each(Call::Pop, wanted(&parts), self.store.pop(parts)).await
    }

    async fn unpop(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.each(Call::Unpop, jobs(&parts), self.store.unpop(parts)).await
    }

    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ClaimPage> {
        self.read(Call::Held, self.store.held(bucket, topic, cursor)).await
    }

    async fn finish(&self, parts: Parts<Vec<Claim>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.each(Call::Finish, jobs(&parts), self.store.finish(parts)).await
    }

    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.each(Call::Release, jobs(&parts), self.store.release(parts)).await
    }

    async fn touch(&self, parts: Parts<Vec<Touch>>) -> StoreResults<Vec<Reply<UnixMillis>>> {
        self.each(Call::Touch, jobs(&parts), self.store.touch(parts)).await
    }

    async fn bury(&self, parts: Parts<Vec<Bury>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        self.each(Call::Bury, jobs(&parts), self.store.bury(parts)).await
    }

    async fn kick(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<Topic>>> {
        self.each(Call::Kick, jobs(&parts), self.store.kick(parts)).await
    }

    async fn delete(&self, parts: Parts<Vec<Target>>) -> StoreResults<Vec<Reply<State>>> {
        self.each(Call::Delete, jobs(&parts), self.store.delete(parts)).await
    }

    async fn reschedule(
        &self,
        parts: Parts<Vec<(Target, Change)>>,
    ) -> StoreResults<Vec<Reply<Job>>> {
        self.each(Call::Reschedule, jobs(&parts), self.store.reschedule(parts)).await
    }

    async fn promote(&self, buckets: Vec<Bucket>, limit: usize) -> StoreResults<Promoted> {
        self.each(Call::Promote, 0, self.store.promote(buckets, limit)).await
    }

    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek> {
        self.each(Call::Peek, 0, self.store.peek(parts, deadlines)).await
    }

    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>> {
        self.read(Call::Get, self.store.get(bucket, target)).await
    }

    async fn topics(
        &self,
        bucket: Bucket,
        page: TopicPage,
    ) -> StoreResult<Vec<(Topic, TopicPeek)>> {
        self.read(Call::Topics, self.store.topics(bucket, page)).await
    }

    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek> {
        self.read(Call::Topic, self.store.topic(bucket, topic)).await
    }

    async fn weigh(&self, topic: Topic) -> StoreResult<Usage> {
        self.read(Call::Weigh, self.store.weigh(topic)).await
    }

    async fn usage(&self) -> StoreResult<Usage> {
        self.read(Call::Usage, self.store.usage()).await
    }

    async fn due_counts(
        &self,
        bucket: Bucket,
        topic: Topic,
        steps: Steps,
    ) -> StoreResult<Vec<u64>> {
        self.read(Call::DueCounts, self.store.due_counts(bucket, topic, steps)).await
    }

    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage> {
        self.read(Call::List, self.store.list(bucket, topic, state, range)).await
    }

    async fn purge(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        limit: usize,
    ) -> StoreResult<u64> {
        self.one(Call::Purge, self.store.purge(bucket, topic, state, limit)).await
    }

    async fn kick_dead(&self, bucket: Bucket, topic: Topic, limit: usize) -> StoreResult<u64> {
        self.one(Call::KickDead, self.store.kick_dead(bucket, topic, limit)).await
    }

    async fn set_paused(&self, topic: Topic, paused: bool) -> StoreResult<()> {
        self.one(Call::SetPaused, self.store.set_paused(topic, paused)).await
    }

    async fn pause_until(&self, topic: Topic, end: Schedule) -> StoreResult<UnixMillis> {
        self.one(Call::PauseUntil, self.store.pause_until(topic, end)).await
    }

    async fn end_pause(&self, topic: Topic, until: UnixMillis) -> StoreResult<Millis> {
        self.one(Call::EndPause, self.store.end_pause(topic, until)).await
    }

    async fn set_defaults(&self, topic: Topic, defaults: Option<PolicyFields>) -> StoreResult<()> {
        self.one(Call::SetDefaults, self.store.set_defaults(topic, defaults)).await
    }

    async fn settings(&self, known: u64) -> StoreResult<Option<SettingsNews>> {
        self.read(Call::Settings, self.store.settings(known)).await
    }

    async fn tokens(&self, known: Option<u64>) -> StoreResult<Option<StoredTokens>> {
        self.read(Call::Tokens, self.store.tokens(known)).await
    }

    async fn change_token(&self, change: TokenChange) -> StoreResult<TokenChanged> {
        self.one(Call::ChangeToken, self.store.change_token(change)).await
    }

    async fn note_token_uses(&self, uses: Vec<(String, UnixMillis)>) -> StoreResult<()> {
        self.one(Call::NoteTokenUses, self.store.note_token_uses(uses)).await
    }

    async fn accept_loss(&self) -> StoreResult<u64> {
        self.one(Call::AcceptLoss, self.store.accept_loss()).await
    }

    async fn check(&self) -> StoreResult<()> {
        self.one(Call::Check, self.store.check()).await
    }

    fn condition(&self) -> Condition {
        self.store.condition()
    }

    fn disk_room(&self) -> Option<DiskRoom> {
        self.store.disk_room()
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.store.shared()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
