//! Counts, times and traces the calls of any store.
//!
//! Errors of calls that only read are marked as not applied. Metrics are looked up at the start, so
//! counting costs a fraction of a microsecond per call.

use std::{collections::HashMap, sync::Arc, time::Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tracing::Instrument;

use super::{
    Command, Condition, DiskRoom, DueSchedules, JobPage, JobRange, JobReads, JobTransitions,
    Matched, Outcome, Parts, Peek, ReservedPage, ScheduleChange, ScheduleChanged, SchedulePage,
    ScheduleStore, SchedulesFound, Selection, SettingCondition, SharedStore, Steps, Store,
    StoreError, StoreResult, StoreResults, StoredSchedule, StoredTokens, Target, TokenChange,
    TokenChanged, TokenStore, TopicPage, TopicPeek, TopicSettingsStore, Usage, Verb,
};
use crate::{
    job::{
        Bucket, Buckets, Job, JobId, Millis, ReservationKey, Schedule, ScheduleName, Setting,
        SettingsChanges, State, Topic, UnixMillis,
    },
    metrics::SECONDS,
    traces,
};

/// Bounds of the histogram of jobs per call.
const JOBS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0];

/// A store whose calls are measured.
pub struct Measured {
    store: Arc<dyn Store>,
    /// Indexed by [`Verb`].
    transitions: Vec<Meter>,
    /// Meters of the other methods, by name.
    others: HashMap<&'static str, Meter>,
}

struct Meter {
    seconds: Histogram,
    errors: Counter,
    jobs: Option<Histogram>,
}

impl Measured {
    /// Wraps `store` and registers the metrics of its calls in `registry`.
    pub fn new(store: Arc<dyn Store>, registry: &mut Registry) -> Self {
        type Labels = [(&'static str, &'static str); 1];
        let seconds = || Histogram::new(SECONDS);
        let seconds = Family::<Labels, Histogram, _>::new_with_constructor(seconds);
        let jobs = || Histogram::new(JOBS);
        let jobs = Family::<Labels, Histogram, _>::new_with_constructor(jobs);
        let errors = Family::<Labels, Counter>::default();
        let meter = |name, counts_jobs: bool| {
            let labels = [("call", name)];
            Meter {
                seconds: seconds.get_or_create_owned(&labels),
                errors: errors.get_or_create_owned(&labels),
                jobs: counts_jobs.then(|| jobs.get_or_create_owned(&labels)),
            }
        };
        let transitions = Verb::ALL.iter().map(|&verb| meter(verb.name(), counts_jobs(verb)));
        let transitions = transitions.collect();
        let others = OTHERS.iter().flat_map(|names| names.iter());
        let others = others.map(|&name| (name, meter(name, false))).collect();
        let help = "Duration of a call to the store";
        registry.register("store_call_duration_seconds", help, seconds);
        let help = "Number of jobs of one call to the store";
        registry.register("store_call_jobs", help, jobs);
        let help = "Calls to the store that failed for at least one bucket";
        registry.register("store_call_errors", help, errors);
        Self { store, transitions, others }
    }

    /// Measures a call other than a transition.
    async fn call<T>(
        &self,
        name: &'static str,
        jobs: Option<usize>,
        made: impl Future<Output = T>,
        has_failed: impl FnOnce(&T) -> bool,
    ) -> T {
        let begin = Instant::now();
        let result = made.instrument(traces::call(name, jobs)).await;
        if let Some(meter) = self.others.get(name) {
            meter.count(begin, has_failed(&result));
        }
        result
    }

    /// Measures a call with one result.
    async fn one<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.call(name, None, made, Result::is_err).await
    }

    /// Measures a call that only reads.
    async fn read<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.one(name, made).await.map_err(StoreError::of_read)
    }

    /// Measures a call for several buckets that acts on no jobs.
    async fn each<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = StoreResults<T>>,
    ) -> StoreResults<T> {
        let has_failed = |results: &StoreResults<T>| results.iter().any(Result::is_err);
        self.call(name, Some(0), made, has_failed).await
    }
}

impl Meter {
    fn count(&self, begin: Instant, failed: bool) {
        self.seconds.observe(begin.elapsed().as_secs_f64());
        if failed {
            self.errors.inc();
        }
    }
}

/// Returns whether the number of jobs per call of this transition is measured. It is measured only
/// if clients choose this number.
fn counts_jobs(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Restore
            | Verb::Promote
            | Verb::Purge
            | Verb::KickDead
            | Verb::KickMatching
            | Verb::PurgeMatching
    )
}

impl JobTransitions for Measured {
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let (verb, jobs) = (command.verb(), command.jobs());
            let (meter, begin) = (&self.transitions[verb as usize], Instant::now());
            let span = traces::call(verb.name(), jobs);
            let outcome = self.store.apply(command).instrument(span).await;
            meter.count(begin, outcome.has_failed());
            if let (Some(histogram), Some(jobs)) = (&meter.jobs, jobs) {
                histogram.observe(jobs as f64);
            }
            outcome
        })
    }
}

/// Implements traits by forwarding each method. The word before a method's name is the function
/// that measures the method: `read`, `one` or `each`.
macro_rules! measured {
    ($($Trait:ident {
        $($measure:ident $method:ident($($argument:ident: $type:ty),*) -> $reply:ty;)+
    })+) => {
        /// Names of all measured methods except transitions.
        const OTHERS: &[&[&str]] = &[$(&[$(stringify!($method)),+]),+, OF_STORE];

        $(
            #[async_trait]
            impl $Trait for Measured {
                $(async fn $method(&self, $($argument: $type),*) -> $reply {
                    self.$measure(stringify!($method), self.store.$method($($argument),*)).await
                })+
            }
        )+
    };
}

measured! {
    JobReads {
        read held(bucket: Bucket, topic: Topic, cursor: Option<String>) -> StoreResult<ReservedPage>;
        each peek(parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek>;
        read get(bucket: Bucket, target: Target) -> StoreResult<Option<Job>>;
        each states(parts: Parts<Vec<JobId>>) -> StoreResults<Vec<Option<State>>>;
        read topics(bucket: Bucket, page: TopicPage) -> StoreResult<Vec<(Topic, TopicPeek)>>;
        read topic(bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek>;
        read topic_usage(topic: Topic) -> StoreResult<Usage>;
        read usage() -> StoreResult<Usage>;
        read due_counts(bucket: Bucket, topic: Topic, steps: Steps) -> StoreResult<Vec<u64>>;
        read list(bucket: Bucket, topic: Topic, state: State, range: JobRange) -> StoreResult<JobPage>;
        read count_matching(bucket: Bucket, selection: Selection) -> StoreResult<Matched<u64>>;
    }
    TopicSettingsStore {
        one change_setting(setting: Setting, condition: SettingCondition) -> StoreResult<bool>;
        one pause_until(topic: Topic, end: Schedule) -> StoreResult<UnixMillis>;
        one end_pause(topic: Topic, until: UnixMillis) -> StoreResult<Millis>;
        read settings(known: u64) -> StoreResult<Option<SettingsChanges>>;
    }
    ScheduleStore {
        read due_schedules(limit: usize) -> StoreResult<DueSchedules>;
        read schedule(name: ScheduleName) -> StoreResult<Option<StoredSchedule>>;
        read schedules(page: SchedulePage) -> StoreResult<SchedulesFound>;
        one change_schedules(changes: Vec<ScheduleChange>) -> StoreResult<Vec<ScheduleChanged>>;
    }
    TokenStore {
        read tokens(known: Option<u64>) -> StoreResult<Option<StoredTokens>>;
        one change_token(change: TokenChange) -> StoreResult<TokenChanged>;
        one note_token_uses(uses: Vec<(String, UnixMillis)>) -> StoreResult<()>;
    }
}

const OF_STORE: &[&str] = &["accept_loss", "check"];

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

    async fn accept_loss(&self) -> StoreResult<u64> {
        self.one("accept_loss", self.store.accept_loss()).await
    }

    async fn check(&self) -> StoreResult<()> {
        self.one("check", self.store.check()).await
    }

    fn condition(&self) -> Condition {
        self.store.condition()
    }

    fn kept_after_firing(&self) -> Millis {
        self.store.kept_after_firing()
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
