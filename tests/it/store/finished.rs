//! Jobs with a retention, which a store keeps after their finish.

use delay_queue::job::Job;

use crate::store::prelude::*;

pub fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

/// Returns a JSON string of this length.
pub fn text(length: usize) -> Bytes {
    format!("\"{}\"", "x".repeat(length - 2)).into()
}

/// Returns the counts of a topic in all buckets.
pub async fn counts(bench: &Bench, name: &str) -> Counts {
    let mut sum = Counts::default();
    for bucket in bench.store.buckets().all() {
        sum = sum.plus(bench.store.topic(bucket, topic(name)).await.expect("a topic").counts);
    }
    sum
}

pub async fn a_finished_job_has_an_ending_and_no_body_while_kept(bench: Bench) {
    let policy = whole_policy();
    let mut new = with(delayed("a", "t", MINUTE), |all| {
        *all = policy;
        all.finished_retention = HOUR;
    });
    bench.put(new.clone()).await.expect("put");
    let created_at = bench.now();
    bench.advance(MINUTE);
    new.policy.expire_from(bench.now());
    bench.promote().await;
    let first = bench.pop_one("t").await;
    bench.release(&first.id, Some(first.reservation), Some(Millis::ZERO)).await.expect("released");
    let due_at = bench.now();
    let popped = bench.pop_one("t").await;
    bench.advance(SECOND);
    let hold = Some(popped.reservation);
    let result = Bytes::from(" { \"a\" :\n1 }\t");
    bench.finish_with(&popped.id, hold, Some(result.clone())).await.expect("finished");
    let ending = Ending { at: bench.now(), outcome: Outcome::Finished, result: Some(result) };
    let expected = Job {
        id: id("a"),
        topic: topic("t"),
        body: Bytes::new(),
        state: State::Finished,
        attempt: 2,
        is_snoozed: false,
        due_at,
        created_at,
        ttr: new.policy.ttr,
        policy: new.policy,
        reservation: hold,
        reserved_until: None,
        died_at: None,
        error: None,
        ending: Some(ending),
        consumer: None,
        started_at: None,
        history: vec![
            PastAttempt {
                attempt: 1,
                started_at: due_at,
                ended_at: due_at,
                outcome: AttemptOutcome::Released,
                error: Some("released".to_owned()),
                consumer: None,
            },
            PastAttempt {
                attempt: 2,
                started_at: due_at,
                ended_at: bench.now(),
                outcome: AttemptOutcome::Finished,
                error: None,
                consumer: None,
            },
        ],
    };
    assert_eq!(bench.get(&id("a")).await.as_ref(), Some(&expected));
    let bench = bench.reopen().await;
    bench.advance(Millis::new(HOUR.get() - 1));
    bench.promote().await;
    assert_eq!(bench.get(&id("a")).await, Some(expected));
    bench.advance(Millis::new(1));
    bench.promote().await;
    assert_eq!(bench.get(&id("a")).await, None);
    bench.put(job("a", "t")).await.expect("the id is free");
    assert_eq!(bench.pop_one("t").await.attempt, 1);
}

pub async fn a_job_without_a_retention_is_removed_by_its_finish(bench: Bench) {
    let reservation = bench.finished(job("a", "t"), None).await;
    assert_eq!(bench.get(&id("a")).await, None);
    assert_eq!(bench.finish(&id("a"), Some(reservation)).await, Err(Refusal::NotFound));
    assert_eq!(counts(&bench, "t").await, Counts::default());
    assert_eq!(bench.records().await, 0);
}

pub async fn the_first_result_stays_when_a_finish_is_repeated(bench: Bench) {
    let first = bench.finished(kept(job("a", "t"), HOUR), Some("1".into())).await;
    let second = bench.finished(kept(job("b", "t"), HOUR), None).await;
    let read_both = async || (bench.get(&id("a")).await, bench.get(&id("b")).await);
    let before = read_both().await;
    bench.advance(SECOND);
    for result in [None, Some("1".into()), Some("2".into()), Some(text(5_000))] {
        assert_eq!(bench.finish_with(&id("a"), Some(first), result.clone()).await, Ok(()));
        assert_eq!(bench.finish_with(&id("b"), Some(second), result).await, Ok(()));
        assert_eq!(read_both().await, before);
    }
    let bucket = bench.bucket(&id("a"));
    let held = JobRef { id: id("a"), reservation: Some(first), topics: Topics::ALL };
    let replies = bench
        .store
        .call_in::<verb::Finish>(bucket, vec![Finish { held, result: Some("3".into()) }; 2]);
    assert_eq!(replies.await.expect("finish"), [Ok(topic("t")), Ok(topic("t"))]);
    assert_eq!(read_both().await, before);
}

pub async fn a_finished_job_refuses_other_reservations(bench: Bench) {
    bench.put(with(kept(job("a", "t"), HOUR), |policy| policy.ttr = SECOND)).await.expect("put");
    let earlier = bench.pop_one("t").await.reservation;
    bench.advance(SECOND);
    bench.promote().await;
    let last = bench.pop_one("t").await.reservation;
    bench.finish_with(&id("a"), Some(last), Some("1".into())).await.expect("finished");
    let before = bench.get(&id("a")).await;
    for other in [Some(earlier), Some(Reservation::NONE), Some(Reservation::from_bits(7)), None] {
        for result in [None, Some("2".into())] {
            let refused = bench.finish_with(&id("a"), other, result).await;
            assert_eq!(refused, Err(Refusal::Finished), "{other:?}");
        }
    }
    assert_eq!(bench.get(&id("a")).await, before);

    // A finish by id alone leaves the reservation valid: the consumer that has it may repeat a
    // finish whose answer was lost.
    bench.put(kept(job("b", "t"), HOUR)).await.expect("put");
    let held = bench.pop_one("t").await.reservation;
    assert_eq!(bench.finish(&id("b"), None).await, Ok(()));
    assert_eq!(bench.finish(&id("b"), None).await, Err(Refusal::Finished));
    assert_eq!(bench.finish(&id("b"), Some(held)).await, Ok(()));
}

pub async fn a_result_without_a_retention_is_refused(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    let result = || Some(Bytes::from("1"));
    assert_eq!(bench.finish_with(&id("a"), None, result()).await, Err(Refusal::NeverPopped));
    let hold = Some(bench.pop_one("t").await.reservation);
    let before = bench.get(&id("a")).await;
    for hold in [hold, None] {
        let refused = bench.finish_with(&id("a"), hold, result()).await;
        assert_eq!(refused, Err(Refusal::ResultNotKept));
    }
    assert_eq!(bench.finish_with(&id("a"), Some(Reservation::NONE), result()).await, Err(LOST));
    assert_eq!(bench.get(&id("a")).await, before);
    assert_eq!(bench.finish(&id("a"), hold).await, Ok(()));
    assert_eq!(bench.get(&id("a")).await, None);
}

pub async fn a_late_finish_keeps_a_job_in_every_state(bench: Bench) {
    for state in [State::Delayed, State::Ready, State::Dead] {
        for by_id in [false, true] {
            let new = with(kept(job("a", "t"), HOUR), |policy| {
                policy.backoff =
                    (state == State::Delayed).then(|| "list:3600000".parse().expect("a backoff"));
                policy.max_attempts = if state == State::Dead { 1 } else { 0 };
            });
            bench.put(new).await.expect("put");
            let hold = (!by_id).then_some(bench.pop("t", 1).await[0].reservation);
            bench.advance(MINUTE);
            bench.promote().await;
            let before = bench.get(&id("a")).await.expect("the job exists");
            assert_eq!(before.state, state);
            bench.finish_with(&id("a"), hold, Some("1".into())).await.expect("finished");
            let after = bench.get(&id("a")).await.expect("the job is kept");
            assert_eq!((after.state, after.error, after.died_at), (State::Finished, None, None));
            assert_eq!((after.attempt, after.due_at), (1, before.due_at), "{state:?}");
            assert_eq!(counts(&bench, "t").await, Counts { finished: 1, ..Counts::default() });
            bench.advance(HOUR);
            bench.promote().await;
            assert!(bench.get(&id("a")).await.is_none() && bench.pop("t", 1).await.is_empty());
        }
    }
    assert_eq!(bench.records().await, 0);
}

pub async fn a_finished_job_cannot_be_changed(bench: Bench) {
    let reservation = bench.finished(kept(job("a", "t"), HOUR), Some("1".into())).await;
    let (name, before) = (id("a"), bench.get(&id("a")).await);
    for hold in [Some(reservation), Some(Reservation::NONE), None] {
        let delay = Some(Millis::ZERO);
        assert_eq!(bench.release(&name, hold, delay).await, Err(Refusal::Finished));
        assert_eq!(bench.touch(&name, hold, None).await, Err(Refusal::Finished));
        assert_eq!(bench.bury(&name, hold).await, Err(Refusal::Finished));
    }
    assert_eq!(bench.kick(&name).await, Err(Refusal::Finished));
    assert_eq!(bench.unpop(&name, reservation).await, Err(LOST));
    for schedule in [None, Some(Schedule::In(Millis::ZERO)), Some(Schedule::In(HOUR))] {
        let change = Change { schedule, body: Some("2".into()), ..Change::default() };
        assert_eq!(bench.reschedule(&name, change).await, Err(Refusal::Finished));
    }
    assert_eq!(bench.get(&name).await, before);
    assert!(bench.pop("t", 1).await.is_empty());
}

pub async fn results_of_any_size_are_kept_and_removed_completely(bench: Bench) {
    let sizes = [2, 4_095, 4_096, 4_097, 64 << 10];
    for body in [2, 4_096, 4_097, 100_000] {
        for size in sizes {
            let name = format!("{body}:{size}");
            let new = NewJob { body: text(body), ..kept(job(&name, "t"), HOUR) };
            bench.finished(new, Some(text(size))).await;
        }
        let new = NewJob { body: text(body), ..kept(job(&format!("{body}:0"), "t"), HOUR) };
        bench.finished(new, None).await;
    }
    let bench = bench.reopen().await;
    for body in [2, 4_096, 4_097, 100_000] {
        for size in sizes {
            let found = bench.get(&id(&format!("{body}:{size}"))).await.expect("the job is kept");
            assert_eq!(found.ending.and_then(|ending| ending.result), Some(text(size)));
            assert_eq!(found.body, "");
        }
        let found = bench.get(&id(&format!("{body}:0"))).await.expect("the job is kept");
        assert_eq!(found.ending.and_then(|ending| ending.result), None);
    }
    bench.advance(HOUR);
    bench.promote().await;
    // New jobs with the same ids and short bodies must not have the old results.
    for size in sizes {
        bench.put(job(&format!("2:{size}"), "t")).await.expect("the id is free");
        let popped = bench.pop_one("t").await;
        assert!(popped.body.len() < 100);
        bench.finish(&popped.id, Some(popped.reservation)).await.expect("finished");
    }
    assert_eq!(bench.records().await, 0);
}
