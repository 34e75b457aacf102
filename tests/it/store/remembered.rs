//! Ids that stay taken after their jobs have ended: puts with the id of a finished job, and
//! remembered deletes.

use crate::store::prelude::*;

/// Returns the refusal of a put with the id of a finished job of topic `t`.
fn exists<T>() -> Result<T, Refusal> {
    Err(Refusal::Exists(Some(Living { state: State::Finished, topic: topic("t") })))
}

pub async fn a_finished_id_is_refused_kept_or_replaced(bench: Bench) {
    let again = |on_conflict, of: &str| NewJob {
        on_conflict,
        schedule: Schedule::In(MINUTE),
        body: text(5_000),
        ..job("a", of)
    };
    let due_at = bench.now();
    let old = bench.finished(kept(job("a", "t"), HOUR), Some(text(6_000))).await;
    bench.advance(SECOND);
    let before = bench.get(&id("a")).await;
    assert_eq!(bench.put(again(OnConflict::Reject, "t")).await, exists());
    for on_conflict in [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace] {
        assert_eq!(
            bench.put(again(on_conflict, "u")).await,
            exists(),
            "a put to another topic was not refused"
        );
    }
    let expected = Placed { how: PutOutcome::Kept, state: State::Finished, due_at, moved_to: None };
    assert_eq!(bench.put(again(OnConflict::Keep, "t")).await, Ok(expected));
    assert_eq!(bench.get(&id("a")).await, before);

    let due_at = bench.now().after(MINUTE);
    let expected =
        Placed { how: PutOutcome::Created, state: State::Delayed, due_at, moved_to: None };
    assert_eq!(bench.put(again(OnConflict::Replace, "t")).await, Ok(expected));
    let after = bench.get(&id("a")).await.expect("the job exists");
    assert_eq!((after.attempt, after.reservation, after.ending), (0, None, None));
    assert_eq!((after.body, after.created_at), (text(5_000), bench.now()));
    let refused = bench.finish(&id("a"), Some(old)).await;
    assert_eq!(
        refused,
        Err(Refusal::ReservationLost),
        "the reservation of the replaced job is valid"
    );
    assert_eq!(counts(&bench, "t").await, Counts { delayed: 1, ..Counts::default() });
    bench.advance(HOUR);
    bench.promote().await;
    let popped = bench.pop_one("t").await;
    assert_eq!((popped.attempt, popped.body), (1, text(5_000)));
    assert_eq!(bench.finish(&id("a"), Some(popped.reservation)).await, Ok(()));
    assert_eq!(bench.records().await, 0);
}

pub async fn a_put_retried_after_the_finish_creates_no_job(bench: Bench) {
    let put = || NewJob { on_conflict: OnConflict::Reject, ..kept(job("a", "t"), HOUR) };
    bench.finished(put(), None).await;
    for _ in 0..3 {
        assert_eq!(bench.put(put()).await, exists());
        bench.advance(MINUTE);
        bench.promote().await;
        assert!(bench.pop("t", 1).await.is_empty());
    }
    let bench = bench.reopen().await;
    assert_eq!(bench.put(put()).await, exists());
    assert!(bench.pop("t", 1).await.is_empty());
    bench.advance(HOUR);
    bench.promote().await;
    assert_eq!(bench.put(put()).await.map(|placed| placed.how), Ok(PutOutcome::Created));
}

/// Puts job `a` in this state, popped once unless it was `never_popped`.
async fn arrange(bench: &Bench, state: State, never_popped: bool) {
    let waits = state == State::Delayed;
    let new = with(job("a", "t"), |policy| {
        *policy = Policy { ttr: MINUTE, dead_retention: HOUR, dead_to: None, ..whole_policy() };
        policy.backoff = waits.then(|| "list:3600000".parse().expect("a backoff"));
        policy.max_attempts = if state == State::Dead { 1 } else { 0 };
        policy.finished_retention = if state == State::Finished { HOUR } else { Millis::ZERO };
    });
    let delay = if waits && never_popped { HOUR } else { Millis::ZERO };
    let new = NewJob { body: text(5_000), schedule: Schedule::In(delay), ..new };
    bench.put(new).await.expect("put");
    if !never_popped {
        let popped = bench.pop_one("t").await;
        if state == State::Finished {
            let hold = Some(popped.reservation);
            bench.finish_with(&popped.id, hold, Some(text(5_000))).await.expect("finished");
        } else if state != State::Reserved {
            bench.advance(MINUTE);
            bench.promote().await;
        }
    }
    assert_eq!(bench.state(&id("a")).await, Some(state));
}

pub async fn a_remembered_delete_takes_the_id_in_every_state(bench: Bench) {
    let popped = State::ALL.map(|state| (state, false));
    let never = [(State::Delayed, true), (State::Ready, true)];
    for (state, never_popped) in popped.into_iter().chain(never) {
        let case = format!("{state:?}, never popped: {never_popped}");
        arrange(&bench, state, never_popped).await;
        let before = bench.get(&id("a")).await.expect("the job exists");
        bench.advance(SECOND);
        assert_eq!(bench.delete_remembered(&id("a"), HOUR).await, Ok(state), "{case}");
        let mut expected = before.clone();
        expected.policy.finished_retention = HOUR;
        (expected.state, expected.ttr) = (State::Finished, expected.policy.ttr);
        (expected.body, expected.error) = (bytes::Bytes::new(), None);
        (expected.reserved_until, expected.died_at) = (None, None);
        let at = bench.now();
        expected.ending = Some(Ending { at, outcome: Outcome::Deleted, result: None });
        assert_eq!(bench.get(&id("a")).await, Some(expected), "{case}");

        // No consumer can pop or finish the deleted job.
        assert_eq!(bench.finish(&id("a"), before.reservation).await, Err(Refusal::Finished));
        assert_eq!(bench.put(job("a", "t")).await, exists(), "{case}");
        assert!(bench.pop("t", 1).await.is_empty(), "{case}");
        assert_eq!(counts(&bench, "t").await, Counts { finished: 1, ..Counts::default() });
        assert_eq!(bench.delete(&id("a")).await, Ok(State::Finished), "{case}");
        assert_eq!(bench.get(&id("a")).await, None);
        bench.put(job("a", "t")).await.expect("the id is free");
        bench.delete(&id("a")).await.expect("deleted");
    }
    assert_eq!(bench.records().await, 0);
}

pub async fn a_remembered_id_is_free_after_its_time(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    assert_eq!(bench.delete_remembered(&id("a"), SECOND).await, Ok(State::Ready));
    let bench = bench.reopen().await;
    bench.advance(Millis::new(999));
    bench.promote().await;
    assert_eq!(bench.put(job("a", "t")).await, exists());
    bench.advance(Millis::new(1));
    bench.promote().await;
    assert_eq!(bench.get(&id("a")).await, None);
    bench.put(job("a", "t")).await.expect("the id is free");
    // Without `remember`, the id is free at once.
    assert_eq!(bench.delete_remembered(&id("a"), Millis::ZERO).await, Ok(State::Ready));
    assert_eq!(bench.get(&id("a")).await, None);
    let missing = bench.delete_remembered(&id("a"), HOUR).await;
    assert_eq!(missing, Err(Refusal::NotFound), "an unknown id is not remembered");
    bench.put(job("a", "t")).await.expect("the id is free");
}

pub async fn a_finished_job_can_be_deleted_and_remembered(bench: Bench) {
    let reservation = bench.finished(kept(job("a", "t"), MINUTE), Some(text(5_000))).await;
    assert_eq!(bench.delete_remembered(&id("a"), HOUR).await, Ok(State::Finished));
    let refused = bench.finish(&id("a"), Some(reservation)).await;
    assert_eq!(refused, Err(Refusal::Finished), "the deleted job was deleted again");
    let ending = bench.get(&id("a")).await.and_then(|job| job.ending).expect("the job is kept");
    assert_eq!((ending.outcome, ending.result), (Outcome::Deleted, None));
    bench.advance(MINUTE);
    bench.promote().await;
    assert_eq!(
        bench.put(job("a", "t")).await,
        exists(),
        "the id is free although the new time has not passed"
    );
    let replace = NewJob { on_conflict: OnConflict::Replace, ..job("a", "t") };
    assert_eq!(bench.put(replace).await.map(|placed| placed.how), Ok(PutOutcome::Created));
    assert_eq!(bench.pop_one("t").await.attempt, 1);
}

pub async fn a_delete_in_excluded_states_remembers_nothing(bench: Bench) {
    for state in State::ALL {
        for mask in 0..32_u8 {
            let only = states(mask);
            if only.has(state) {
                continue;
            }
            arrange(&bench, state, false).await;
            let before = bench.get(&id("a")).await;
            let delete = Delete { states: Some(only), remember: Some(HOUR), ..deletion(&id("a")) };
            let refused = bench.delete_by(delete).await;
            assert_eq!(refused, Err(Refusal::WrongState(state)), "{only:?}");
            assert_eq!(bench.get(&id("a")).await, before);
            bench.delete(&id("a")).await.expect("deleted");
        }
    }
    assert_eq!(bench.records().await, 0);
}
