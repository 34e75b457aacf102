//! Ids that stay taken after their jobs have ended: puts with the id of a finished job, and
//! remembered deletes.

use crate::store::prelude::*;

/// Returns the refusal of a put with the id of a finished job of topic `t`.
fn exists<T>() -> Result<T, Refusal> {
    Err(Refusal::Exists(Some(Living { state: State::Finished, topic: topic("t") })))
}

pub async fn a_put_retried_after_the_finish_creates_no_job(bench: Bench) {
    let put = || NewJob { on_conflict: OnConflict::Reject, ..kept(job("a", "t"), HOUR) };
    bench.finished(put(), None).await;
    for _ in 0..3 {
        assert_eq!(bench.put(put()).await, exists());
        bench.promote_after(MINUTE).await;
        assert!(bench.pop("t", 1).await.is_empty());
    }
    let bench = bench.reopen().await;
    assert_eq!(bench.put(put()).await, exists());
    assert!(bench.pop("t", 1).await.is_empty());
    bench.promote_after(HOUR).await;
    assert_eq!(bench.put(put()).await.map(|placed| placed.how), Ok(PutOutcome::Created));
}

/// Puts a job, and pops it unless it was `never_popped`, so that it is in this state.
async fn arrange(bench: &Bench, state: State, never_popped: bool) {
    let new = with(NewJob { body: text(5_000), ..job("a", "t") }, |policy| {
        *policy = Policy { ttr: MINUTE, dead_retention: HOUR, dead_to: None, ..whole_policy() };
    });
    if never_popped {
        let delay = if state == State::Delayed { HOUR } else { Millis::ZERO };
        bench.put(NewJob { schedule: Schedule::In(delay), ..new }).await.expect("put");
    } else {
        bench.popped_for(state, new).await;
        bench.promote_after(MINUTE).await;
    }
    assert_eq!(bench.state(&id("a")).await, Some(state));
}

pub async fn a_remembered_delete_takes_the_id_in_every_state(bench: Bench) {
    let popped = State::ALL.map(|state| (state, false));
    let never = [(State::Delayed, true), (State::Ready, true)];
    for (state, never_popped) in popped.into_iter().chain(never) {
        let case = format!("{state:?}, never popped: {never_popped}");
        arrange(&bench, state, never_popped).await;
        let before = bench.job("a").await;
        bench.advance(SECOND);
        assert_eq!(bench.delete_remembered(&id("a"), HOUR).await, Ok(state), "{case}");
        let ending = Ending { at: bench.now(), outcome: Outcome::Deleted, result: None };
        let mut expected = Job {
            state: State::Finished,
            ttr: before.policy.ttr,
            body: Bytes::new(),
            error: None,
            reserved_until: None,
            died_at: None,
            ending: Some(ending),
            ..before.clone()
        };
        expected.policy.finished_retention = HOUR;
        assert_eq!(bench.job("a").await, expected, "{case}");

        // No consumer can pop or finish the deleted job.
        assert_eq!(bench.finish(&id("a"), before.reservation).await, Err(Refusal::Finished));
        assert_eq!(bench.put(job("a", "t")).await, exists(), "{case}");
        assert!(bench.pop("t", 1).await.is_empty(), "{case}");
        assert_eq!(bench.counts("t").await, Counts { finished: 1, ..Counts::default() });
        assert_eq!(bench.delete(&id("a")).await, Ok(State::Finished), "{case}");
        assert_eq!(bench.get(&id("a")).await, None);
    }
    assert_eq!(bench.records().await, 0);
}

pub async fn a_remembered_id_is_free_after_its_time(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    assert_eq!(bench.delete_remembered(&id("a"), SECOND).await, Ok(State::Ready));
    let bench = bench.reopen().await;
    bench.promote_after(Millis::new(999)).await;
    assert_eq!(bench.put(job("a", "t")).await, exists());
    bench.promote_after(Millis::new(1)).await;
    assert_eq!(bench.get(&id("a")).await, None);
    bench.put(job("a", "t")).await.expect("the id is free");
    // Without `remember`, the id is free at once.
    assert_eq!(bench.delete_remembered(&id("a"), Millis::ZERO).await, Ok(State::Ready));
    assert_eq!(bench.get(&id("a")).await, None);
    let missing = bench.delete_remembered(&id("a"), HOUR).await;
    assert_eq!(missing, Err(Refusal::NotFound), "an unknown id is not remembered");
    bench.put(job("a", "t")).await.expect("the id is free");
}
