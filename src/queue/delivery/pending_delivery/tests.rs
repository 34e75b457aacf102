use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::*;
use crate::{
    job::{Millis, Policy, Priority, Reservation, UnixMillis},
    queue::Coalescer,
    store::StoreError,
};

fn popped() -> PoppedJob {
    PoppedJob {
        id: "a".parse().expect("an id"),
        topic: "t".parse().expect("a topic"),
        body: "null".into(),
        attempt: 1,
        due_at: UnixMillis::new(0),
        created_at: UnixMillis::new(0),
        ttr: Millis::new(60_000),
        reservation: Reservation::from_bits(1),
        reserved_until: UnixMillis::new(60_000),
        policy: Policy::STANDARD,
    }
}

/// Returns a returner whose store refuses the first `refusals` calls, and the count of calls.
fn to_a_store_that_refuses(refusals: usize) -> (Arc<Returner>, Arc<AtomicUsize>) {
    let (calls, made) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&made);
    let unpop = Coalescer::new(&calls, move |jobs: Vec<JobRef>| {
        let is_refused = count.fetch_add(1, Ordering::SeqCst) < refusals;
        let outcome = move |_: &JobRef| match is_refused {
            true => Err(StoreError::unavailable("a test")),
            false => Ok(Ok(Readied {
                topic: "t".parse().expect("a topic"),
                priority: Priority::STANDARD,
                expires_at: None,
            })),
        };
        async move { jobs.iter().map(outcome).collect() }
    });
    let returner = Returner {
        unpop: Dispatcher::to_one(unpop),
        tasks: calls,
        runtime: Handle::current(),
        stop: CancellationToken::new(),
    };
    (Arc::new(returner), made)
}

async fn ended(returner: &Returner) {
    returner.tasks.close();
    let ended = tokio::time::timeout(Duration::from_secs(10), returner.tasks.wait()).await;
    ended.expect("it is given back or given up");
}

#[tokio::test]
async fn a_dropped_job_is_given_back_however_often_the_store_refuses() {
    let (returner, made) = to_a_store_that_refuses(2);
    drop(PendingDelivery::new(vec![popped()], Arc::clone(&returner), Instant::now()));
    ended(&returner).await;
    assert_eq!(made.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_stopping_queue_gives_a_dropped_job_back_once() {
    let (returner, made) = to_a_store_that_refuses(usize::MAX);
    drop(PendingDelivery::new(vec![popped()], Arc::clone(&returner), Instant::now()));
    let tried = async {
        while made.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), tried).await.expect("it is tried at once");
    returner.stop.cancel();
    ended(&returner).await;
    assert!(made.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn a_refused_delivery_says_whether_its_jobs_were_given_back() {
    for (refusals, is_taken, calls) in [(0, true, 1), (1, false, 2)] {
        let (returner, made) = to_a_store_that_refuses(refusals);
        let delivery = PendingDelivery::new(vec![popped()], Arc::clone(&returner), Instant::now());
        assert_eq!(delivery.give_back().await, is_taken);
        ended(&returner).await;
        assert_eq!(made.load(Ordering::SeqCst), calls);
    }
}

#[tokio::test]
async fn what_is_kept_is_not_given_back() {
    let (returner, made) = to_a_store_that_refuses(0);
    assert_eq!(
        PendingDelivery::new(vec![popped()], Arc::clone(&returner), Instant::now()).keep(),
        [popped()]
    );
    ended(&returner).await;
    assert_eq!(made.load(Ordering::SeqCst), 0);
}
