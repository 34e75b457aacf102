//! Jobs with a retention, which a store keeps after their finish.

use crate::store::prelude::*;

/// Returns a JSON string of this length.
pub fn text(length: usize) -> Bytes {
    format!("\"{}\"", "x".repeat(length - 2)).into()
}

pub async fn the_first_result_stays_when_a_finish_is_repeated(bench: Bench) {
    let first = bench.finished(kept(job("a", "t"), HOUR), Some("1".into())).await;
    let second = bench.finished(kept(job("b", "t"), HOUR), None).await;
    let read_both = async || [bench.job("a").await, bench.job("b").await];
    let before = read_both().await;
    bench.advance(SECOND);
    for result in [None, Some("1".into()), Some("2".into()), Some(text(5_000))] {
        assert_eq!(bench.finish_with(&id("a"), Some(first), result.clone()).await, Ok(()));
        assert_eq!(bench.finish_with(&id("b"), Some(second), result).await, Ok(()));
        assert_eq!(read_both().await, before);
    }
    let again = Finish { held: job_ref(&id("a"), Some(first)), result: Some("3".into()) };
    let replies = bench.call::<verb::Finish>(bench.bucket(&id("a")), vec![again; 2]).await;
    assert_eq!(replies, [Ok(topic("t")), Ok(topic("t"))]);
    assert_eq!(read_both().await, before);
}

pub async fn a_finished_job_refuses_other_reservations(bench: Bench) {
    let earlier = bench.popped(kept(job("a", "t"), HOUR)).await.reservation;
    bench.promote_after(MINUTE).await;
    let last = bench.pop_one("t").await.reservation;
    // A finish by id alone leaves the reservation valid: the consumer that has it may repeat a
    // finish whose answer was lost.
    assert_eq!(bench.finish(&id("a"), None).await, Ok(()));
    for other in [Some(earlier), Some(Reservation::NONE), None] {
        assert_eq!(bench.finish(&id("a"), other).await, Err(Refusal::Finished), "{other:?}");
    }
    assert_eq!(bench.finish(&id("a"), Some(last)).await, Ok(()));
}

pub async fn results_of_any_size_are_kept_and_removed_completely(bench: Bench) {
    let sizes = [0, 2, 4_095, 4_096, 4_097, 64 << 10];
    let all =
        [2, 4_096, 4_097, 100_000].into_iter().flat_map(|body| sizes.map(|size| (body, size)));
    let result = |size| (size > 0).then(|| text(size));
    for (body, size) in all.clone() {
        let new = NewJob { body: text(body), ..job(&format!("{body}:{size}"), "t") };
        bench.finished(kept(new, HOUR), result(size)).await;
    }
    let bench = bench.reopen().await;
    for (body, size) in all {
        let found = bench.job(&format!("{body}:{size}")).await;
        assert_eq!(found.ending.and_then(|ending| ending.result), result(size), "{body} {size}");
        assert_eq!(found.body, "");
    }
    bench.promote_after(HOUR).await;
    // New jobs with the same ids and short bodies must not have the old results.
    for size in sizes {
        let popped = bench.popped(job(&format!("2:{size}"), "t")).await;
        assert!(popped.body.len() < 100);
        bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
    }
    assert_eq!(bench.records().await, 0);
}
