//! Tests of finished jobs whose rows are damaged, restored or salvaged.

use super::*;

#[tokio::test]
async fn a_damaged_finished_job_keeps_its_id_and_never_runs() {
    let lost = "DELETE FROM attempts";
    for sql in ["UPDATE attempts SET at = 1", "UPDATE pool SET topic = 'u'", lost] {
        let bench = Bench::new();
        bench.put(kept("a")).await.expect("put");
        let reservation = Some(bench.pop().await[0]);
        bench.finish(vec![finish_of("a", reservation, Some("1"))]).await.remove(0).expect("ok");
        bench.clock.advance(Millis::new(2 * KEPT.get()));
        let bench = bench.reopened(sql).await;
        bench.promote(9).await;
        assert!(bench.pop().await.is_empty(), "{sql}");
        let state = if sql == lost { State::Dead } else { State::Finished };
        assert_eq!(bench.state("a").await, Some(state), "{sql}");
        assert!(matches!(bench.read("a").await, Err(StoreError::Damaged { .. })), "{sql}");
        assert!(matches!(bench.put(kept("a")).await, Err(Refusal::Exists(Some(_)))), "{sql}");
        assert_eq!(bench.delete("a", Some(KEPT)).await, Err(Refusal::Damaged), "{sql}");
        if state == State::Finished {
            let again = bench.finish(vec![finish_of("a", reservation, None)]).await;
            assert_eq!(again, [Err(Refusal::Finished)], "{sql}");
        }
        assert_eq!(bench.delete("a", None).await, Ok(state), "{sql}");
        let bench = bench.reopened("").await;
        assert_eq!(bench.state("a").await, None, "{sql}");
    }
}

#[tokio::test]
async fn a_job_with_a_damaged_attempt_can_be_remembered() {
    let bench = Bench::new();
    bench.put(kept("a")).await.expect("put");
    bench.pop().await;
    let bench = bench.reopened("UPDATE attempts SET number = 7").await;
    assert!(matches!(bench.read("a").await, Err(StoreError::Damaged { .. })));
    assert_eq!(bench.delete("a", Some(KEPT)).await, Ok(State::Dead));
    assert_eq!(bench.get("a").await.ending, ending(START, Outcome::Deleted, None));
    let bench = bench.reopened("").await;
    assert_eq!(bench.get("a").await.state, State::Finished);
}

#[tokio::test]
async fn a_quarantined_finished_job_keeps_its_id_and_never_runs() {
    let bench = Bench::new();
    bench.put(kept("a")).await.expect("put");
    let bench = bench.reopened("INSERT INTO aside VALUES (1, 2)").await;
    assert_eq!(bench.state("a").await, Some(State::Finished));
    assert!(bench.pop().await.is_empty());
    assert_eq!(bench.delete("a", Some(KEPT)).await, Err(Refusal::Damaged));
    let Bench { dir, clock, store } = bench;
    store.close().await;
    drop(store);
    let into = dir.path().join("new");
    let options = Options::new(None, clock.clone());
    let salvaged = salvage_into(dir.path(), &into, &options).expect("salvaged");
    assert_eq!((salvaged.jobs, salvaged.uncertain), (0, 1));
    let store = open(&into, &clock);
    let job = store.get(bucket(), target("a")).await.expect("readable").expect("a job");
    assert_eq!((job.state, &job.body[..]), (State::Finished, &b""[..]));
    store.close().await;
    drop(store);
    let bench = Bench { store: open(dir.path(), &clock), dir, clock };
    assert_eq!(bench.delete("a", None).await, Ok(State::Finished));
    let bench = bench.reopened("").await;
    assert_eq!(bench.state("a").await, None);
}

#[tokio::test]
async fn finished_jobs_are_restored_and_salvaged() {
    let bench = Bench::new();
    let mut jobs = Vec::new();
    for (id, attempt) in [("popped", 3), ("never", 0)] {
        let due_at = UnixMillis::new(START.get() + 1_000_000);
        let NewJob { id, topic, policy, .. } = kept(id);
        let result = (attempt > 0).then_some("[1]");
        let outcome = if attempt > 0 { Outcome::Finished } else { Outcome::Deleted };
        jobs.push(Job {
            id,
            topic,
            body: Bytes::new(),
            state: State::Finished,
            attempt,
            is_snoozed: false,
            due_at,
            created_at: START,
            ttr: policy.ttr,
            policy,
            reservation: (attempt > 0).then(|| Reservation::from_bits(7)),
            reserved_until: None,
            died_at: None,
            error: None,
            ending: ending(UnixMillis::new(START.get() + 3), outcome, result),
            consumer: None,
            started_at: None,
            history: Vec::new(),
        });
    }
    let restored = bench.store().restore(vec![(bucket(), jobs.clone())]).await.remove(0);
    assert_eq!(restored.expect("restored"), [Ok(()), Ok(())]);
    let seen = [bench.get("popped").await, bench.get("never").await];
    assert_eq!(seen[..], jobs[..]);
    // Without their attempts, the second one would be delivered in its time.
    for (sql, uncertain) in [("", 0), ("DELETE FROM attempts", 2)] {
        let bench = Bench::new();
        bench.store().restore(vec![(bucket(), jobs.clone())]).await.remove(0).expect("restored");
        let Bench { dir, clock, store } = bench.reopened(sql).await;
        store.close().await;
        drop(store);
        let into = dir.path().join("new");
        let options = Options::new(None, clock.clone());
        let salvaged = salvage_into(dir.path(), &into, &options).expect("salvaged");
        assert_eq!((salvaged.jobs, salvaged.uncertain), (2 - uncertain, uncertain));
        let store = open(&into, &clock);
        for job in &jobs {
            let target = target(job.id.as_str());
            let found = store.get(bucket(), target).await.expect("readable").expect("a job");
            assert_eq!(found.state, State::Finished);
            let known = |ending: &Ending| (ending.outcome, ending.result.clone());
            assert_eq!(found.ending.as_ref().map(known), job.ending.as_ref().map(known));
            assert!(uncertain > 0 || found == *job);
        }
    }
}
