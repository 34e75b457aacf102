use std::{cell::Cell, future::ready};

use tokio::sync::oneshot;

use super::*;

const ONE: Usage = Usage { jobs: 1, bytes: 10 };

fn bound(jobs: Option<u64>, bytes: Option<u64>) -> Arc<UsageLimit<u32>> {
    UsageLimit::new(jobs, bytes).expect("a limit")
}

fn jobs(jobs: u64) -> Usage {
    Usage { jobs, bytes: 10 * jobs }
}

#[tokio::test]
async fn puts_since_a_count_are_added_to_it() {
    let (bound, stored) = (bound(Some(4), None), Cell::new(0));
    let begin = Instant::now();
    let put = async |now| {
        let permit = bound.take(&1, ONE, now, || ready(Ok(jobs(stored.get())))).await?;
        stored.set(stored.get() + 1);
        drop(permit);
        Ok::<_, Reached>(())
    };
    for _ in 0..4 {
        put(begin).await.expect("there is room");
    }
    assert_eq!(put(begin).await, Err(Reached::Jobs(4)));
    stored.set(3);
    assert_eq!(put(begin).await, Err(Reached::Jobs(4)), "not counted yet");
    let later = begin + COUNT_INTERVAL;
    put(later).await.expect("one was removed");
    assert_eq!(put(later).await, Err(Reached::Jobs(4)));
}

#[tokio::test]
async fn earlier_puts_still_count_until_a_new_count_arrives() {
    let (bound, now) = (bound(Some(4), None), Instant::now());
    for _ in 0..4 {
        bound.take(&1, ONE, now, || ready(Ok(Usage::default()))).await.expect("there is room");
    }
    let now = now + COUNT_INTERVAL;
    let (answer, asked) = oneshot::channel::<Usage>();
    let counting = bound.take(&1, ONE, now, async || Ok(asked.await.expect("an answer")));
    tokio::pin!(counting);
    assert!(futures::poll!(&mut counting).is_pending());
    let other = bound.take(&1, ONE, now, || ready(Ok(Usage::default()))).await;
    assert_eq!(other.err(), Some(Reached::Jobs(4)), "refused without waiting for the count");
    answer.send(jobs(4)).expect("it waits");
    assert_eq!(counting.await.err(), Some(Reached::Jobs(4)));
}

#[tokio::test]
async fn bytes_are_limited_and_a_change_of_a_body_counts_as_no_job() {
    let (bound, now) = (bound(Some(1), Some(25)), Instant::now());
    let put = async |more| bound.take(&1, more, now, || ready(Ok(ONE))).await.map(drop);
    assert_eq!(put(ONE).await, Err(Reached::Jobs(1)));
    let change = Usage { jobs: 0, bytes: 10 };
    put(change).await.expect("room for its bytes");
    assert_eq!(put(change).await, Err(Reached::Bytes(25)));
}

#[tokio::test]
async fn below_half_of_a_limit_counts_are_rare() {
    let (bound, counts, begin) = (bound(Some(1_000), None), Cell::new(0), Instant::now());
    for number in 0..100 {
        let now = begin + Duration::from_millis(100 * number);
        let count = || {
            counts.set(counts.get() + 1);
            ready(Ok(Usage::default()))
        };
        bound.take(&1, ONE, now, count).await.expect("there is room");
    }
    assert_eq!(counts.get(), 1);
}

#[tokio::test]
async fn a_put_is_admitted_if_the_store_cannot_count() {
    let (bound, now) = (bound(Some(1), None), Instant::now());
    let unavailable = || ready(Err(crate::store::StoreError::unavailable("gone")));
    bound.take(&1, ONE, now, unavailable).await.expect("admitted");
}

#[tokio::test]
async fn topics_beyond_the_cache_are_limited_too() {
    let (bound, now) = (bound(Some(1), None), Instant::now());
    let most = u32::try_from(MAX_TOPICS).expect("a small number");
    for topic in 0..most + 100 {
        bound.take(&topic, ONE, now, || ready(Ok(Usage::default()))).await.expect("there is room");
        let full = bound.take(&topic, ONE, now, || ready(Ok(ONE))).await;
        assert_eq!(full.err(), Some(Reached::Jobs(1)), "{topic}");
    }
    assert_eq!(bound.lock().len(), MAX_TOPICS);
    let now = now + COUNT_INTERVAL_BELOW_HALF;
    bound.take(&most, ONE, now, || ready(Ok(Usage::default()))).await.expect("there is room");
    assert_eq!(bound.lock().len(), 1);
}
