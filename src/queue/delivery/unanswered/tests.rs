use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    job::{Buckets, JobId, Millis, NewJob, Policy, Schedule, State, Topics},
    queue::{figures::stats::Stats, timer::handle::TimerHandle, waiters::Waiters},
    store::{Clock, Options, PopRequest, Store, Target, file::FileStore},
};

const HOUR: Millis = Millis::new(3_600_000);

fn topic() -> Topic {
    "t".parse().expect("a topic")
}

fn job(id: &str) -> NewJob {
    NewJob {
        schedule: Schedule::In(Millis::ZERO),
        policy: Policy { ttr: HOUR, max_attempts: 1, dead_retention: HOUR, ..Policy::STANDARD },
        ..NewJob::new(id.parse().expect("an id"), topic(), "null")
    }
}

struct Bench {
    context: Context,
    unanswered: Arc<Unanswered>,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn with_jobs(ids: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let options = Options::new(Some(Buckets::ONE), Clock::Own);
        let store = FileStore::open(dir.path(), options).expect("a new store");
        let store: Arc<dyn Store> = Arc::new(store);
        let jobs = ids.iter().map(|id| job(id)).collect();
        assert!(store.put(vec![(Bucket::FIRST, jobs)]).await[0].is_ok());
        let context = Context {
            store,
            timer: Arc::new(TimerHandle::new(Buckets::ONE)),
            waiters: Arc::new(Waiters::new(Buckets::ONE, Box::new(|_| {}))),
            calls: TaskTracker::new(),
            stats: Arc::new(Stats::default()),
            lateness: Arc::default(),
        };
        let stop = CancellationToken::new();
        let unanswered = Unanswered::new(Bucket::FIRST, context.clone(), stop);
        Self { context, unanswered: Arc::new(unanswered), _dir: dir }
    }

    async fn pop(&self, nonce: Nonce, count: u16) {
        let want = PopRequest { topic: topic(), count, ttr: None, consumer: None };
        let popped = self.context.store.pop(vec![(Bucket::FIRST, (nonce, vec![want]))]).await;
        assert_eq!(popped[0].as_ref().expect("popped")[0].jobs.len(), usize::from(count));
    }

    async fn job(&self, id: &str) -> (State, u32) {
        let id: JobId = id.parse().expect("an id");
        let job = self
            .context
            .store
            .get(Bucket::FIRST, Target { id, topics: Topics::ALL })
            .await
            .expect("read");
        let job = job.expect("it lives");
        (job.state, job.attempt)
    }

    async fn ended(&self) {
        self.context.calls.close();
        let ended = tokio::time::timeout(Duration::from_secs(20), self.context.calls.wait()).await;
        ended.expect("it comes to an end");
    }
}

#[tokio::test]
async fn only_jobs_of_the_unanswered_pop_are_given_back() {
    let bench = Bench::with_jobs(&["a", "b", "c"]).await;
    let (answered, lost) = (Nonce::new(1 << 12), Nonce::new(2 << 12));
    bench.pop(answered, 1).await;
    bench.pop(lost, 2).await;
    bench.unanswered.add(lost, vec![topic(), "other".parse().expect("a topic")]);
    assert!(!bench.unanswered.is_settled());
    bench.ended().await;
    assert!(bench.unanswered.is_settled());
    assert_eq!(bench.job("a").await, (State::Reserved, 1));
    assert_eq!(bench.job("b").await, (State::Ready, 0));
    assert_eq!(bench.job("c").await, (State::Ready, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_pop_is_searched_for_again() {
    let bench = Bench::with_jobs(&["a"]).await;
    let late = Nonce::new(1 << 12);
    bench.unanswered.add(late, vec![topic()]);
    tokio::time::sleep(FIRST_PAUSE / 2).await; // usually the first scan finds nothing
    bench.pop(late, 1).await;
    bench.ended().await;
    assert!(bench.unanswered.is_settled());
    assert_eq!(bench.job("a").await, (State::Ready, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_tries_each_unanswered_pop_once_more() {
    let bench = Bench::with_jobs(&["a"]).await;
    let (lost, nothing) = (Nonce::new(1 << 12), Nonce::new(2 << 12));
    bench.unanswered.stop.cancel();
    bench.pop(lost, 1).await;
    bench.unanswered.add(nothing, vec![topic()]);
    bench.unanswered.add(lost, vec![topic()]);
    bench.ended().await; // it does not wait for calls that may still be executed
    assert_eq!(bench.job("a").await, (State::Ready, 0));
}
#[tokio::test(flavor = "multi_thread")]
async fn jobs_reserved_during_a_scan_are_found_by_the_next() {
    let bench = Bench::with_jobs(&["a", "b"]).await;
    let lost = Nonce::new(1 << 12);
    let unanswered = &bench.unanswered;
    // The test makes the steps itself: no task is running.
    unanswered.lock().waiting.push(Pop {
        nonce: lost,
        topics: vec![topic()],
        since: Instant::now(),
        found: false,
    });
    bench.pop(lost, 1).await;
    assert!(unanswered.step().await, "one was found: perhaps not yet all");
    assert_eq!(bench.job("a").await, (State::Ready, 0));
    bench.pop(lost, 2).await;
    assert!(!unanswered.step().await);
    assert!(unanswered.is_settled());
    for id in ["a", "b"] {
        assert_eq!(bench.job(id).await, (State::Ready, 0));
    }
}
