//! Which reservations allow a consumer to act on a job.

use crate::store::prelude::*;

/// Ends or extends an attempt in each way, with this reservation or by id alone. Returns the
/// refusals.
async fn act(bench: &Bench, a: &JobId, hold: Option<Reservation>) -> [Option<Refusal>; 4] {
    [
        bench.finish(a, hold).await.err(),
        bench.release(a, hold, None).await.err(),
        bench.touch(a, hold, None).await.err(),
        bench.bury(a, hold).await.err(),
    ]
}

pub async fn actions_by_id_alone_need_a_popped_job(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    let a = id("a");
    assert_eq!(act(&bench, &a, None).await, [const { Some(Refusal::NeverPopped) }; 4]);
    let nonsense = Some(Reservation::NONE);
    assert_eq!(bench.finish(&a, nonsense).await, Err(LOST));
    bench.pop_one("t").await;
    assert_eq!(bench.finish(&a, nonsense).await, Err(LOST));
    assert_eq!(bench.finish(&a, None).await, Ok(()));
    assert_eq!(bench.finish(&a, None).await, Err(Refusal::NotFound));
}

pub async fn a_second_pop_ends_the_first_reservation(bench: Bench) {
    let first = bench.popped(job("a", "t")).await;
    bench.promote_after(MINUTE).await;
    let second = bench.pop_one("t").await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_ne!(first.reservation, second.reservation);
    let refused = act(&bench, &first.id, Some(first.reservation)).await;
    assert_eq!(refused, [const { Some(LOST) }; 4]);
    assert_eq!(bench.state(&first.id).await, Some(State::Reserved));
    assert_eq!(bench.finish(&first.id, Some(second.reservation)).await, Ok(()));
}

pub async fn an_expired_reservation_cannot_be_touched(bench: Bench) {
    let popped = bench.popped(job("a", "t")).await;
    bench.advance(MINUTE);
    // The reservation has ended although no timer has promoted the job yet.
    assert_eq!(bench.touch(&popped.id, Some(popped.reservation), None).await, Err(LOST));
    bench.promote().await;
    assert_eq!(bench.touch(&popped.id, Some(popped.reservation), None).await, Err(LOST));
}

pub async fn a_release_ends_the_reservation(bench: Bench) {
    let popped = bench.popped(job("a", "t")).await;
    let moved = bench.release(&popped.id, Some(popped.reservation), Some(SECOND)).await;
    assert_eq!(moved.map(|moved| moved.due_at), Ok(bench.now().after(SECOND)));
    assert_eq!(bench.release(&popped.id, Some(popped.reservation), None).await, Err(LOST));
    assert_eq!(bench.finish(&popped.id, Some(popped.reservation)).await, Err(LOST));
    let job = bench.job("a").await;
    assert_eq!((job.state, job.error.as_deref()), (State::Delayed, Some("released")));
}

pub async fn a_change_ends_the_reservation_of_an_expired_ttr(bench: Bench) {
    let changes = [
        Change { body: Some("2".into()), ..Change::default() },
        due_in(HOUR),
        changing(|policy| policy.max_attempts = Some(7)),
    ];
    for backoff in [None, Some(backoff("list:5000"))] {
        for change in changes.clone() {
            let new = with(job("a", "t"), |policy| policy.backoff.clone_from(&backoff));
            let popped = bench.popped(new).await;
            let (a, hold) = (popped.id, Some(popped.reservation));
            assert_eq!(bench.reschedule(&a, change.clone()).await, Err(Refusal::Reserved));
            bench.promote_after(MINUTE).await;
            let changed = bench.reschedule(&a, change).await.expect("the job has no consumer");
            assert_eq!((changed.attempt, changed.reservation), (1, None));
            assert_eq!(changed.error.as_deref(), Some("ttr ended"));

            assert_eq!(act(&bench, &a, hold).await, [const { Some(LOST) }; 4]);
            assert_eq!(bench.get(&a).await, Some(changed), "a late consumer has changed the job");
            assert_eq!(bench.release(&a, None, None).await, Err(Refusal::NotReserved));
            assert_eq!(bench.finish(&a, None).await, Ok(()), "a finish by id alone was refused");
        }
    }
}

pub async fn a_job_that_is_given_back_was_never_popped(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    bench.advance(Millis::new(5));
    bench.put(delayed("b", "t", Millis::ZERO)).await.expect("put");
    let before = bench.get(&id("a")).await;
    let popped = bench.pop("t", 2).await.into_iter().find(|job| job.id == id("a")).expect("a");
    assert!(bench.unpop(&popped.id, popped.reservation).await.is_ok());
    assert_eq!(bench.get(&id("a")).await, before);
    assert_eq!(bench.unpop(&popped.id, popped.reservation).await, Err(LOST));
    assert_eq!(bench.finish(&popped.id, Some(popped.reservation)).await, Err(LOST));
    assert_eq!(bench.finish(&popped.id, None).await, Err(Refusal::NeverPopped));
    assert_eq!(bench.pop_one("t").await.attempt, 1);

    // The same holds for a later attempt.
    bench.promote_after(MINUTE).await;
    let again = bench.pop("t", 2).await.into_iter().find(|job| job.id == id("a")).expect("a");
    assert_eq!(again.attempt, 2);
    assert!(bench.unpop(&again.id, again.reservation).await.is_ok());
    assert_eq!(bench.get(&id("a")).await.map(|job| job.attempt), Some(1));
}

pub async fn a_lapsed_job_that_dies_by_a_release_keeps_its_due_time(bench: Bench) {
    let new = with(job("a", "t"), |policy| policy.backoff = Some(backoff("list:5000")));
    let popped = bench.popped(new).await;
    bench.promote_after(MINUTE).await;
    let due_at = bench.restored_with(&popped.id, |job| job.policy.max_attempts = 1).await.due_at;
    assert_eq!(due_at, popped.reserved_until.after(Millis::new(5000)));
    let moved = bench.release(&popped.id, Some(popped.reservation), None).await.expect("released");
    assert_eq!((moved.state, moved.due_at, moved.died), (State::Dead, due_at, true));
    assert_eq!(bench.get(&popped.id).await.map(|job| job.due_at), Some(due_at));
}

pub async fn every_reserved_job_is_listed_with_its_holder_in_steps(bench: Bench) {
    let buckets = bench.store.buckets();
    // Puts more jobs into every bucket than one step lists.
    let count = (625 * usize::from(buckets.get())).max(2_500);
    let ids: Vec<JobId> = (0..count).map(|number| id(&format!("job:{number}"))).collect();
    bench.popped(job("other", "u")).await;
    for (bucket, jobs) in bench.parts(&ids, |id| job(id.as_str(), "t")) {
        let count = jobs.len();
        for batch in jobs.chunks(1_000) {
            bench.call::<verb::Put>(bucket, batch.to_vec()).await;
        }
        let mut reserved = BTreeMap::new();
        while reserved.len() < count - 1 {
            let left = u16::try_from((count - 1 - reserved.len()).min(100)).expect("at most 100");
            let popped = one(bench.pop_in(bucket, vec![want("t", left)]).await).jobs;
            reserved.extend(popped.into_iter().map(|job| (job.id, job.reservation)));
        }
        let (mut told, mut cursor) = (BTreeMap::new(), None);
        for step in 0.. {
            let page = bench.store.held(bucket, topic("t"), cursor).await.expect("read");
            assert!(page.held.len() <= 1_000, "a step lists more than 1,000 jobs");
            let held = page.held.into_iter();
            told.extend(held.map(|held| (held.id, held.reservation.expect("held"))));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
            assert!(step < 100, "the list has no end after 100 steps");
        }
        assert_eq!(told, reserved);
    }
}
