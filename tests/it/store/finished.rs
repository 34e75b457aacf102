//! Jobs with a retention, which a store keeps after their finish.

use crate::store::prelude::*;

/// Returns a JSON string of this length.
pub fn text(length: usize) -> Bytes {
    format!("\"{}\"", "x".repeat(length - 2)).into()
}

pub async fn a_finished_job_has_an_ending_and_no_body_while_kept(bench: Bench) {
    let mut new = with(delayed("a", "t", MINUTE), |all| {
        *all = Policy { finished_retention: HOUR, ..whole_policy() };
    });
    bench.put(new.clone()).await.expect("put");
    let created_at = bench.now();
    bench.promote_after(MINUTE).await;
    let due_at = bench.now();
    new.policy.expire_from(due_at);
    let first = bench.pop_one("t").await;
    bench.release(&first.id, Some(first.reservation), Some(Millis::ZERO)).await.expect("released");
    let hold = Some(bench.pop_one("t").await.reservation);
    bench.advance(SECOND);
    let result = Some(Bytes::from(" { \"a\" :\n1 }\t"));
    bench.finish_with(&id("a"), hold, result.clone()).await.expect("finished");
    let past = |attempt, ended_at, outcome, error: Option<&str>| PastAttempt {
        attempt,
        started_at: due_at,
        ended_at,
        outcome,
        error: error.map(str::to_owned),
        consumer: None,
    };
    let expected = Job {
        state: State::Finished,
        body: Bytes::new(),
        attempt: 2,
        reservation: hold,
        ending: Some(Ending { at: bench.now(), outcome: Outcome::Finished, result }),
        history: vec![
            past(1, due_at, AttemptOutcome::Released, Some("released")),
            past(2, bench.now(), AttemptOutcome::Finished, None),
        ],
        ..created(new, created_at, due_at)
    };
    assert_eq!(bench.job("a").await, expected);
    let bench = bench.reopen().await;
    bench.promote_after(Millis::new(HOUR.get() - 1)).await;
    assert_eq!(bench.job("a").await, expected);
    bench.promote_after(Millis::new(1)).await;
    assert_eq!(bench.get(&id("a")).await, None);
    assert_eq!(bench.popped(job("a", "t")).await.attempt, 1);
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
    bench.finish_with(&id("a"), Some(last), Some("1".into())).await.expect("finished");
    let before = bench.job("a").await;
    for other in [Some(earlier), Some(Reservation::NONE), Some(Reservation::from_bits(7)), None] {
        for result in [None, Some("2".into())] {
            let refused = bench.finish_with(&id("a"), other, result).await;
            assert_eq!(refused, Err(Refusal::Finished), "{other:?}");
        }
    }
    assert_eq!(bench.job("a").await, before);

    // A finish by id alone leaves the reservation valid: the consumer that has it may repeat a
    // finish whose answer was lost.
    let held = bench.popped(kept(job("b", "t"), HOUR)).await.reservation;
    assert_eq!(bench.finish(&id("b"), None).await, Ok(()));
    assert_eq!(bench.finish(&id("b"), None).await, Err(Refusal::Finished));
    assert_eq!(bench.finish(&id("b"), Some(held)).await, Ok(()));
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
