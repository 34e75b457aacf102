//! Test bench of one case: a fresh store, a clock that only the test advances, and short methods
//! for both.

use std::sync::atomic::AtomicU64;

use delay_queue::{
    job::Nonce,
    store::{Peek, Promote, Reply, StoreResults, Transition, redis::RedisOptions},
};

use crate::store::prelude::*;
use crate::support::resp;

/// Transitions for calls on one bucket.
pub use delay_queue::store::verb;

/// Reservation that a call uses. Calls without one act by the id alone.
pub type Hold = Option<Reservation>;

/// Time at which every case begins.
pub const START: UnixMillis = UnixMillis::new(1_800_000_000_000);
pub const SECOND: Millis = Millis::new(1_000);
pub const MINUTE: Millis = Millis::new(60_000);
pub const HOUR: Millis = Millis::new(3_600_000);
pub const RETENTION: Millis = Millis::new(14 * 24 * 3_600_000);

/// Peeks at one bucket, including its deadline.
pub async fn peek_in(store: &dyn Store, bucket: Bucket, topics: Vec<Topic>) -> StoreResult<Peek> {
    one(store.peek(vec![(bucket, topics)], true).await)
}

pub fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

/// Returns a request for jobs with their own TTR, by a consumer without a name.
pub fn want(name: &str, count: u16) -> PopRequest {
    PopRequest { topic: topic(name), count, ttr: None, consumer: None }
}

/// Returns a reference to a job by a caller who may use every topic.
pub fn job_ref(id: &JobId, hold: Hold) -> JobRef {
    JobRef { id: id.clone(), reservation: hold, topics: Topics::ALL }
}

pub fn held(popped: &PoppedJob) -> JobRef {
    job_ref(&popped.id, Some(popped.reservation))
}

/// Returns the target of a call whose caller may use every topic.
pub fn target(id: &JobId) -> Target {
    Target { id: id.clone(), topics: Topics::ALL }
}

/// Returns the states whose bits are set in `mask`. The lowest bit belongs to the first state.
pub fn states(mask: u8) -> States {
    State::ALL.into_iter().filter(|state| mask & (1 << *state as u8) != 0).collect()
}

pub fn deletion(id: &JobId) -> Delete {
    Delete { job: target(id), states: None, remember: None }
}

pub fn finishing(held: JobRef) -> Finish {
    Finish { held, result: None }
}

/// Returns a job with this retention after its finish.
pub fn kept(job: NewJob, retention: Millis) -> NewJob {
    with(job, |policy| policy.finished_retention = retention)
}

/// Returns the jobs of a topic that promotes have made ready.
pub fn ready_in(promoted: &Promoted, name: &str) -> ReadyJobs {
    let of_topic = promoted.topics.iter().filter(|(topic, _)| topic.as_str() == name);
    of_topic.fold(ReadyJobs::NONE, |sum, (_, counts)| sum.plus(counts.ready))
}

pub async fn promote_in(store: &dyn Store, bucket: Bucket, limit: usize) -> StoreResult<Promoted> {
    store.call_in::<verb::Promote>(bucket, Promote { limit }).await
}

/// Promotes some buckets once, with a common limit.
pub async fn promote_together(
    store: &dyn Store,
    buckets: impl IntoIterator<Item = Bucket>,
    limit: usize,
) -> StoreResults<Promoted> {
    let parts = buckets.into_iter().map(|bucket| (bucket, Promote { limit }));
    store.promote(parts.collect()).await
}

#[derive(Clone)]
pub struct Bench {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub backend: Backend,
    pub layout: Layout,
}

/// Prefix and number of buckets of a store.
#[derive(Clone, Default)]
pub struct Layout {
    pub prefix: String,
    buckets: Option<Buckets>,
}

/// Directory or Redis that contains the store's data. The data exists as long as this value.
#[derive(Clone)]
pub enum Backend {
    /// A temporary directory is removed with this value.
    Dir(PathBuf, #[expect(dead_code, reason = "removes the directory")] Option<Arc<TempDir>>),
    Redis(Arc<Redis>),
    Cluster(Arc<Cluster>),
}

impl Bench {
    pub async fn file() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let backend = Backend::Dir(dir.path().to_owned(), Some(Arc::new(dir)));
        Self::open(backend, Layout::default()).await
    }

    /// Opens a store in this directory, which is not removed afterwards.
    pub async fn file_in(path: PathBuf) -> Self {
        Self::open(Backend::Dir(path, None), Layout::default()).await
    }

    /// Opens a store on the shared Redis with several buckets, so that calls contain jobs of some.
    pub async fn shared_redis() -> Self {
        let layout = Layout { prefix: shared::prefix(), buckets: Some(Buckets::SIXTEEN) };
        Self::open(Backend::Redis(shared::redis()), layout).await
    }

    /// Opens a store with several buckets on its own Redis.
    pub async fn redis() -> Self {
        let layout = Layout { prefix: "dq".to_owned(), buckets: Some(Buckets::SIXTEEN) };
        Self::open(Backend::Redis(Arc::new(Redis::start())), layout).await
    }

    pub async fn cluster() -> Self {
        let layout = Layout { prefix: shared::prefix(), buckets: None };
        Self::open(Backend::Cluster(shared::cluster()), layout).await
    }

    /// Opens a store on Redis with one bucket, so that all its jobs are in one order, as in the
    /// file store.
    pub async fn one_bucket_redis() -> Self {
        let mut bench = Self::redis().await;
        bench.layout = Layout { prefix: "one".to_owned(), buckets: Some(Buckets::ONE) };
        bench.fresh().await
    }

    /// Opens an empty store on the same Redis, with a clock at [`START`].
    pub async fn fresh(&self) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let prefix = format!("fresh:{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self::open(self.backend.clone(), Layout { prefix, ..self.layout.clone() }).await
    }

    async fn open(backend: Backend, layout: Layout) -> Self {
        let clock = Clock::set_at(START);
        let store = open(&backend, &layout, &clock).await;
        Self { store, clock, backend, layout }
    }

    /// Closes the store and opens its data again.
    pub async fn reopen(self) -> Self {
        let clock = self.clock.clone();
        self.reopen_by(clock).await
    }

    pub async fn reopen_by(self, clock: Clock) -> Self {
        self.store.close().await;
        let Self { store, backend, layout, .. } = self;
        drop(store);
        let store = open(&backend, &layout, &clock).await;
        Self { store, clock, backend, layout }
    }

    pub fn dir(&self) -> &Path {
        let Backend::Dir(dir, _) = &self.backend else { unreachable!("a store in a directory") };
        dir
    }

    pub fn database(&self) -> PathBuf {
        self.dir().join("jobs.db")
    }

    pub fn redis_server(&self) -> &Redis {
        let Backend::Redis(redis) = &self.backend else { unreachable!("this store is on Redis") };
        redis
    }

    /// Closes the store, which locks its file, edits the file, and opens the store again.
    pub async fn edited(self, edit: impl FnOnce(&rusqlite::Connection)) -> Self {
        self.store.close().await;
        edit(&rusqlite::Connection::open(self.database()).expect("opened"));
        self.reopen().await
    }

    pub fn bucket(&self, id: &JobId) -> Bucket {
        self.store.buckets().of(id)
    }

    /// Returns a bucket and this number of ids that belong to it.
    pub fn ids(&self, count: usize) -> (Bucket, Vec<JobId>) {
        let bucket = self.bucket(&id("0"));
        let all = (0..).map(|number: u32| id(&number.to_string()));
        (bucket, all.filter(|name| self.bucket(name) == bucket).take(count).collect())
    }

    /// Returns the parts of a call on these jobs, grouped by their buckets.
    pub fn parts<'a, T>(
        &self,
        ids: impl IntoIterator<Item = &'a JobId>,
        part: impl Fn(&JobId) -> T,
    ) -> Vec<(Bucket, Vec<T>)> {
        let mut parts = BTreeMap::<Bucket, Vec<T>>::new();
        for id in ids {
            parts.entry(self.bucket(id)).or_default().push(part(id));
        }
        parts.into_iter().collect()
    }

    pub fn advance(&self, span: Millis) {
        self.clock.advance(span);
    }

    pub fn now(&self) -> UnixMillis {
        self.clock.given().expect("a set clock")
    }

    /// Makes a call on one bucket that the store carries out.
    pub async fn call<T: Transition>(&self, bucket: Bucket, part: T::Part) -> T::Reply {
        self.store.call_in::<T>(bucket, part).await.expect("the store answers")
    }

    pub async fn put(&self, job: NewJob) -> Reply<Placed> {
        let bucket = self.bucket(&job.id);
        one(self.call::<verb::Put>(bucket, vec![job]).await)
    }

    pub async fn restore(&self, job: Job) -> Reply<()> {
        let bucket = self.bucket(&job.id);
        one(self.call::<verb::Restore>(bucket, vec![job]).await)
    }

    /// Pops from every bucket until it has `count` jobs.
    pub async fn pop(&self, topic: &str, count: u16) -> Vec<PoppedJob> {
        self.pop_as(topic, count, None, None).await
    }

    pub async fn pop_as(
        &self,
        topic: &str,
        count: u16,
        ttr: Option<Millis>,
        consumer: Option<&str>,
    ) -> Vec<PoppedJob> {
        let consumer = consumer.map(|name| name.parse().expect("a name"));
        let mut jobs: Vec<PoppedJob> = Vec::new();
        for bucket in self.store.buckets().all() {
            let left = count - u16::try_from(jobs.len()).expect("at most count");
            if left > 0 {
                let want = PopRequest { ttr, consumer: consumer.clone(), ..want(topic, left) };
                jobs.extend(self.pop_in(bucket, vec![want]).await.remove(0).jobs);
            }
        }
        jobs
    }

    pub async fn pop_in(&self, bucket: Bucket, wants: Vec<PopRequest>) -> Vec<Popped> {
        self.call::<verb::Pop>(bucket, (nonce(), wants)).await
    }

    pub async fn pop_ids(&self, topic: &str, count: u16) -> Vec<JobId> {
        self.pop(topic, count).await.into_iter().map(|job| job.id).collect()
    }

    /// Pops the only ready job. Panics if there are none or several.
    pub async fn pop_one(&self, topic: &str) -> PoppedJob {
        one(self.pop(topic, 1).await)
    }

    /// Promotes every bucket until no job is due. Returns the counts of all promotes.
    pub async fn promote(&self) -> Promoted {
        let mut all = Promoted::default();
        for bucket in self.store.buckets().all() {
            loop {
                let promoted = promote_in(&*self.store, bucket, 100).await.expect("promote");
                all.topics.extend(promoted.topics);
                if !promoted.next.is_some_and(Next::has_passed) {
                    break;
                }
            }
        }
        all
    }

    /// Advances the clock, and promotes every bucket until no job is due.
    pub async fn promote_after(&self, span: Millis) {
        self.advance(span);
        self.promote().await;
    }

    pub async fn finish(&self, id: &JobId, hold: Hold) -> Reply<()> {
        self.finish_with(id, hold, None).await
    }

    pub async fn finish_with(&self, id: &JobId, hold: Hold, result: Option<Bytes>) -> Reply<()> {
        let held = job_ref(id, hold);
        let finish = vec![Finish { held, result }];
        one(self.call::<verb::Finish>(self.bucket(id), finish).await).map(drop)
    }

    /// Puts and pops a job. Panics if its topic has another ready job.
    pub async fn popped(&self, job: NewJob) -> PoppedJob {
        let (name, topic) = (job.id.clone(), job.topic.clone());
        self.put(job).await.expect("put");
        let popped = self.pop_one(topic.as_str()).await;
        assert_eq!(popped.id, name, "the topic has another ready job");
        popped
    }

    pub async fn buried(&self, job: NewJob) -> PoppedJob {
        let popped = self.popped(job).await;
        self.bury(&popped.id, Some(popped.reservation)).await.expect("buried");
        popped
    }

    /// Puts and pops a job with rules by which it is in this state after its TTR.
    pub async fn popped_for(&self, state: State, job: NewJob) -> PoppedJob {
        let new = with(job, |policy| {
            let is = |other| state == other;
            policy.ttr = if is(State::Reserved) { HOUR } else { policy.ttr };
            policy.max_attempts = u32::from(is(State::Dead));
            policy.backoff = is(State::Delayed).then(|| backoff("list:3600000"));
            policy.finished_retention = if is(State::Finished) { HOUR } else { Millis::ZERO };
        });
        let popped = self.popped(new).await;
        if state == State::Finished {
            self.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
        }
        popped
    }

    /// Puts, pops and finishes a job that has a retention. Returns its last reservation.
    pub async fn finished(&self, job: NewJob, result: Option<Bytes>) -> Reservation {
        let popped = self.popped(job).await;
        let hold = Some(popped.reservation);
        self.finish_with(&popped.id, hold, result).await.expect("finished");
        popped.reservation
    }

    pub async fn release(
        &self,
        id: &JobId,
        hold: Hold,
        delay: Option<Millis>,
    ) -> Reply<Transitioned> {
        let held = job_ref(id, hold);
        let error = Some("released".to_owned());
        self.release_by(Release { delay, error, ..Release::new(held) }).await
    }

    pub async fn release_by(&self, release: Release) -> Reply<Transitioned> {
        let id = &release.held.id.clone();
        one(self.call::<verb::Release>(self.bucket(id), vec![release]).await)
    }

    pub async fn touch(&self, id: &JobId, hold: Hold, ttr: Option<Millis>) -> Reply<UnixMillis> {
        let touch = Touch { held: job_ref(id, hold), ttr };
        one(self.call::<verb::Touch>(self.bucket(id), vec![touch]).await)
    }

    pub async fn bury(&self, id: &JobId, hold: Hold) -> Reply<()> {
        let held = job_ref(id, hold);
        let bury = Bury { held, error: Some("buried".to_owned()) };
        one(self.call::<verb::Bury>(self.bucket(id), vec![bury]).await).map(drop)
    }

    pub async fn unpop(&self, id: &JobId, reservation: Reservation) -> Reply<Readied> {
        let held = job_ref(id, Some(reservation));
        one(self.call::<verb::Unpop>(self.bucket(id), vec![held]).await)
    }

    pub async fn kick(&self, id: &JobId) -> Reply<Readied> {
        one(self.call::<verb::Kick>(self.bucket(id), vec![target(id)]).await)
    }

    pub async fn delete(&self, id: &JobId) -> Reply<State> {
        self.delete_by(deletion(id)).await
    }

    pub async fn delete_remembered(&self, id: &JobId, remember: Millis) -> Reply<State> {
        self.delete_by(Delete { remember: Some(remember), ..deletion(id) }).await
    }

    pub async fn delete_by(&self, delete: Delete) -> Reply<State> {
        let bucket = self.bucket(&delete.job.id);
        one(self.call::<verb::Delete>(bucket, vec![delete]).await)
    }

    pub async fn reschedule(&self, id: &JobId, change: Change) -> Reply<Job> {
        let jobs = vec![(target(id), change)];
        one(self.call::<verb::Reschedule>(self.bucket(id), jobs).await)
    }

    pub async fn get(&self, id: &JobId) -> Option<Job> {
        self.store.get(self.bucket(id), target(id)).await.expect("get")
    }

    /// Replaces a job by an edited copy, as an import would write it. Returns the copy.
    pub async fn restored_with(&self, id: &JobId, edit: impl FnOnce(&mut Job)) -> Job {
        let mut job = self.get(id).await.expect("the job exists");
        edit(&mut job);
        self.delete(id).await.expect("deleted");
        self.restore(job.clone()).await.expect("restored");
        job
    }

    pub async fn job(&self, name: &str) -> Job {
        self.get(&id(name)).await.expect("the job exists")
    }

    pub async fn list(&self, bucket: Bucket, name: &str, state: State, range: JobRange) -> JobPage {
        self.store.list(bucket, topic(name), state, range).await.expect("a page")
    }

    /// Lists the jobs of one state in every bucket, in pages of this size. Calls `meanwhile` after
    /// each page.
    pub async fn list_all(
        &self,
        name: &str,
        state: State,
        range: JobRange,
        mut meanwhile: impl AsyncFnMut(&JobPage),
    ) -> Vec<Job> {
        let mut jobs = Vec::new();
        for bucket in self.store.buckets().all() {
            let mut range = range.clone();
            loop {
                let page = self.list(bucket, name, state, range.clone()).await;
                assert!(page.jobs.len() <= range.limit);
                meanwhile(&page).await;
                jobs.extend(page.jobs);
                match page.next {
                    Some(place) => range.after = Some(place),
                    None => break,
                }
            }
        }
        jobs
    }

    /// Returns the jobs that a list reports as damaged, and the reasons.
    pub async fn damaged_for(&self, name: &str, state: State) -> (Vec<JobId>, Vec<String>) {
        let mut all = Vec::new();
        let range = JobRange { limit: 100, ..JobRange::default() };
        let list = self.list_all(name, state, range, async |page: &JobPage| {
            all.extend(page.damaged.iter().map(|job| (job.id.clone(), job.reason.clone())));
        });
        list.await;
        all.into_iter().unzip()
    }

    /// Returns the ids of jobs that a list reports as damaged. Each must have a reason.
    pub async fn damaged(&self, name: &str, state: State) -> Vec<JobId> {
        let (ids, reasons) = self.damaged_for(name, state).await;
        assert!(reasons.iter().all(|reason| !reason.is_empty()));
        ids
    }

    /// Returns the counts of each topic in each bucket.
    pub async fn topics(&self) -> Vec<(Bucket, Topic, Counts)> {
        let mut all = Vec::new();
        for bucket in self.store.buckets().all() {
            let page = TopicPage { limit: 1_000, ..TopicPage::default() };
            let topics = self.store.topics(bucket, page).await.expect("topics");
            all.extend(topics.into_iter().map(|(topic, peek)| (bucket, topic, peek.counts)));
        }
        all
    }

    pub async fn counts(&self, name: &str) -> Counts {
        let mut sum = Counts::default();
        for bucket in self.store.buckets().all() {
            sum = sum.plus(self.store.topic(bucket, topic(name)).await.expect("a topic").counts);
        }
        sum
    }

    pub async fn state(&self, id: &JobId) -> Option<State> {
        self.get(id).await.map(|job| job.state)
    }

    pub async fn states<'a>(&self, ids: impl IntoIterator<Item = &'a JobId>) -> Vec<Option<State>> {
        let mut all = Vec::new();
        for id in ids {
            all.push(self.state(id).await);
        }
        all
    }

    /// Counts the records without using the store. Closes a file store before.
    pub async fn records(&self) -> usize {
        match &self.backend {
            Backend::Dir(..) => {
                self.store.close().await;
                let file = rusqlite::Connection::open(self.database()).expect("opened");
                let count = "SELECT count(*) FROM pool";
                file.query_row(count, (), |row| row.get(0)).expect("counted")
            }
            Backend::Redis(redis) => self.records_in(redis.port()),
            Backend::Cluster(cluster) => {
                cluster.masters().into_iter().map(|port| self.records_in(port)).sum()
            }
        }
    }

    /// Counts the records and the histories without a record in a Redis.
    fn records_in(&self, port: u16) -> usize {
        let script = "local n = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':pool')) do \
                      n = n + redis.call('HLEN', key) end \
                      for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':history')) do \
                      local pool = string.gsub(key, 'history$', 'pool') \
                      for _, id in ipairs(redis.call('HKEYS', key)) do \
                      n = n + 1 - redis.call('HEXISTS', pool, id) end end return n";
        match ask(port, &["EVAL", script, "0", &format!("{{{}:*}}", self.layout.prefix)]) {
            Some(resp::Reply::Number(count)) => usize::try_from(count).expect("a count"),
            other => panic!("{other:?}"),
        }
    }

    /// Counts the ready jobs of a topic in all buckets, as the peeks of pops do.
    pub async fn ready(&self, name: &str) -> u64 {
        let mut sum = 0;
        for bucket in self.store.buckets().all() {
            let peek = peek_in(&*self.store, bucket, vec![topic(name)]).await.expect("a look");
            sum += peek.ready[0].count;
        }
        sum
    }
}

async fn open(backend: &Backend, layout: &Layout, clock: &Clock) -> Arc<dyn Store> {
    let options = Options::new(layout.buckets, clock.clone());
    match backend {
        Backend::Dir(dir, _) => Arc::new(FileStore::open(dir, options).expect("open")),
        Backend::Redis(redis) => on_redis(&redis.url(), layout, options).await,
        Backend::Cluster(cluster) => on_redis(&cluster.url(), layout, options).await,
    }
}

/// Returns options with which an open waits for a Redis that the machine has stalled.
pub fn redis_options(url: &str, prefix: &str) -> RedisOptions {
    let options = RedisOptions::new(url.parse().expect("a URL"), prefix);
    RedisOptions { connect_timeout: scaled(Duration::from_secs(60)), ..options }
}

async fn on_redis(url: &str, layout: &Layout, options: Options) -> Arc<dyn Store> {
    Arc::new(RedisStore::open(redis_options(url, &layout.prefix), options).await.expect("open"))
}

pub fn one<T>(mut batch: Vec<T>) -> T {
    assert_eq!(batch.len(), 1, "the answer must have one result");
    batch.remove(0)
}

pub fn nonce() -> Nonce {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Nonce::new(NEXT.fetch_add(1, Ordering::Relaxed) << 12)
}

/// Returns a policy in which every field differs from the standard one.
pub fn whole_policy() -> Policy {
    include_str!("../../../crates/delay-queue-core/src/job/policy/whole.txt")
        .parse()
        .expect("a policy")
}

pub fn id(text: &str) -> JobId {
    text.parse().expect("an id")
}

/// Returns a job without a delay, with a TTR of a minute and 20 attempts.
pub fn job(name: &str, topic: &str) -> NewJob {
    NewJob {
        id: id(name),
        topic: self::topic(topic),
        body: format!("{{\"job\": \"{name}\"}}").into(),
        schedule: Schedule::In(Millis::ZERO),
        policy: Policy { ttr: MINUTE, dead_retention: RETENTION, ..Policy::STANDARD },
        on_conflict: OnConflict::Reject,
    }
}

/// Returns the job that a put creates at this time, without its expiry.
pub fn created(new: NewJob, now: UnixMillis, due_at: UnixMillis) -> Job {
    Job {
        id: new.id,
        topic: new.topic,
        body: new.body,
        state: if due_at <= now { State::Ready } else { State::Delayed },
        attempt: 0,
        is_snoozed: false,
        due_at,
        created_at: now,
        ttr: new.policy.ttr,
        policy: new.policy,
        reservation: None,
        reserved_until: None,
        died_at: None,
        error: None,
        ending: None,
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}

pub fn with(job: NewJob, set: impl FnOnce(&mut Policy)) -> NewJob {
    let mut policy = job.policy.clone();
    set(&mut policy);
    NewJob { policy, ..job }
}

pub fn backoff(text: &str) -> Backoff {
    text.parse().expect("a backoff")
}

/// Returns the change of a due time, counted from now.
pub fn due_in(delay: Millis) -> Change {
    Change { schedule: Some(Schedule::In(delay)), ..Change::default() }
}

pub fn changing(set: impl FnOnce(&mut PolicyFields)) -> Change {
    let mut change = Change::default();
    set(&mut change.policy);
    change
}

pub fn delayed(name: &str, topic: &str, delay: Millis) -> NewJob {
    NewJob { schedule: Schedule::In(delay), ..job(name, topic) }
}

pub const LOST: Refusal = Refusal::ReservationLost;
