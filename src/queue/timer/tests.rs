use super::*;
use crate::{
    job::{Buckets, Millis, NewJob, Policy, Schedule, Topic, UnixMillis},
    store::{Clock, Options, Placed, Reply, file::FileStore},
};

const DAY: Millis = Millis::new(86_400_000);

fn job(id: &str, delay: Millis) -> NewJob {
    NewJob {
        schedule: Schedule::In(delay),
        policy: Policy { ttr: DAY, max_attempts: 1, dead_retention: DAY, ..Policy::STANDARD },
        ..NewJob::new(id.parse().expect("an id"), "t".parse().expect("a topic"), "null")
    }
}

async fn put(store: &dyn Store, name: &str, delay: Millis) -> UnixMillis {
    let parts = vec![(Bucket::FIRST, vec![job(name, delay)])];
    let mut outcomes = store.put(parts).await;
    let reply: Reply<Placed> = outcomes.remove(0).expect("put").remove(0);
    reply.expect("it was free").due_at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nearer_deadline_is_met_however_often_other_servers_poll() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new(Some(Buckets::ONE), Clock::Own);
    let store = FileStore::open(dir.path(), options).expect("a new store");
    let store: Arc<dyn Store> = Arc::new(store);
    let handle = Arc::new(TimerHandle::new(Buckets::ONE));
    let timer = Timer {
        store: Arc::clone(&store),
        handle: Arc::clone(&handle),
        waiters: Arc::new(Waiters::new(Buckets::ONE, Box::new(|_| {}))),
        stats: Arc::default(),
        poll_interval: Duration::from_secs(1),
    };
    put(&*store, "far", DAY).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(timer.run(stop.clone()));
    while !handle.knows_a_deadline(Bucket::FIRST) {
        tokio::task::yield_now().await;
    }
    handle.wake_by(Bucket::FIRST, put(&*store, "near", Millis::new(200)).await);
    // Other servers poll all the time, so this timer polls after seven seconds at the earliest.
    let begin = Instant::now();
    let topic: Topic = "t".parse().expect("a topic");
    loop {
        handle.polled_elsewhere(Bucket::FIRST);
        let peeks = store.peek(vec![(Bucket::FIRST, vec![topic.clone()])], true).await;
        if peeks[0].as_ref().expect("a peek").ready[0].count == 1 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_millis(6_500), "it waits for its own poll");
        tokio::time::sleep(Duration::from_millis(20)).await; // no event to wait for: time must pass
    }
    stop.cancel();
    running.await.expect("it ends");
}
