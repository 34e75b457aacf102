//! Concurrent calls.

use futures::future::join_all;

use crate::store::prelude::*;

pub async fn one_of_many_concurrent_pops_gets_the_only_job(bench: Bench) {
    for round in 0..20 {
        bench.put(job(&format!("job:{round}"), "t")).await.expect("put");
        let popped = join_all((0..16).map(|_| bench.pop("t", 1))).await;
        assert_eq!(popped.concat().len(), 1, "round {round}");
    }
}

pub async fn two_promoters_and_many_poppers_deliver_each_job_once(bench: Bench) {
    const JOBS: usize = 500;
    for number in 0..JOBS {
        bench.put(delayed(&format!("job:{number}"), "t", SECOND)).await.expect("put");
    }
    bench.advance(SECOND);
    let promoters = join_all([bench.promote(), bench.promote()]);
    let poppers = (0..8).map(async |_| {
        let mut mine = Vec::new();
        while mine.len() < JOBS / 8 {
            mine.extend(bench.pop_ids("t", 1).await);
        }
        mine
    });
    let (promoted, popped) = tokio::join!(promoters, join_all(poppers));
    let promoted: u64 = promoted.iter().map(|promoted| promoted.total().ready.count).sum();
    assert_eq!(promoted, JOBS as u64, "a job was promoted twice or not at all");
    let popped = [popped.concat(), bench.pop_ids("t", 100).await].concat();
    assert_eq!(popped.len(), JOBS);
    assert_eq!(popped.iter().collect::<HashSet<_>>().len(), JOBS);
}

pub async fn one_of_many_puts_of_the_same_id_wins(bench: Bench) {
    let placed = join_all((0..16).map(|_| bench.put(job("a", "t")))).await;
    assert_eq!(placed.into_iter().filter(Result::is_ok).count(), 1);
    assert_eq!(bench.pop("t", 10).await.len(), 1);
}

pub async fn a_put_beside_a_delete_comes_before_or_after_it(bench: Bench) {
    for round in 0..50 {
        let replace = || NewJob { on_conflict: OnConflict::Replace, ..delayed("a", "t", HOUR) };
        bench.put(replace()).await.expect("put");
        let id = id("a");
        let (placed, deleted) = tokio::join!(bench.put(replace()), bench.delete(&id));
        assert_eq!(deleted, Ok(State::Delayed), "round {round}");
        let how = placed.expect("put").how;
        let has_job = bench.get(&id).await.is_some();
        assert_eq!(has_job, how == PutOutcome::Created, "round {round}: {how:?}");
    }
}

pub async fn each_of_several_changes_of_one_job_succeeds(bench: Bench) {
    bench.put(delayed("a", "t", HOUR)).await.expect("put");
    for round in 0..20 {
        let replace = |n: u64| {
            let delay = Schedule::In(Millis::new(n * 1_000));
            let put = NewJob { on_conflict: OnConflict::Replace, schedule: delay, ..job("a", "t") };
            bench.put(put)
        };
        let replaced = join_all((1..6).map(replace)).await;
        assert!(replaced.iter().all(Result::is_ok), "round {round}: {replaced:?}");
        let change =
            async |n: u64| bench.reschedule(&id("a"), due_in(Millis::new(n * 1_000))).await;
        let changed = join_all((1..6).map(change)).await;
        assert!(changed.iter().all(Result::is_ok), "round {round}: {changed:?}");
    }
}

pub async fn one_of_two_ends_of_an_attempt_counts(bench: Bench) {
    for round in 0..20 {
        let popped = bench.popped(job(&format!("job:{round}"), "t")).await;
        let (id, reservation) = (&popped.id, Some(popped.reservation));
        let release = bench.release(id, reservation, Some(HOUR));
        let (released, buried) = tokio::join!(release, bench.bury(id, reservation));
        assert_ne!(released.is_ok(), buried.is_ok(), "round {round}: {released:?}, {buried:?}");
        let left = bench.job(id.as_str()).await;
        let expected = if released.is_ok() { State::Delayed } else { State::Dead };
        assert_eq!((left.state, left.history.len()), (expected, 1), "round {round}");
    }
}

pub async fn a_touch_beside_a_release_neither_stops_nor_undoes_it(bench: Bench) {
    for round in 0..20 {
        let popped = bench.popped(job(&format!("job:{round}"), "t")).await;
        let (id, reservation) = (&popped.id, Some(popped.reservation));
        let release = bench.release(id, reservation, Some(HOUR));
        let (released, touched) = tokio::join!(release, bench.touch(id, reservation, Some(HOUR)));
        let released = released.expect("the reservation is valid until the release");
        assert!(matches!(touched, Ok(_) | Err(Refusal::ReservationLost)), "{touched:?}");
        let left = bench.job(id.as_str()).await;
        assert_eq!((left.state, left.due_at), (State::Delayed, released.due_at), "round {round}");
        assert_eq!(left.history.len(), 1, "round {round}");
    }
}

async fn random_call(bench: &Bench, held: &mut Vec<(JobId, Reservation)>) {
    let number = rand::random_range(0..2_000_u32);
    let (name, topic) = (format!("job:{number}"), format!("t{}", rand::random_range(0..5)));
    let mut hold = || match held.len() {
        0 => None,
        length => Some(held.swap_remove(rand::random_range(0..length))),
    };
    // Ignores refusals, which occur because the order of the calls is random.
    match rand::random_range(0..20) {
        0..6 => {
            let delay = Millis::new(rand::random_range(0..3_000));
            let new = with(delayed(&name, &topic, delay), |policy| policy.max_attempts = 2);
            drop(bench.put(new).await);
        }
        6..11 => {
            let popped = bench.pop(&topic, 2).await;
            held.extend(popped.into_iter().map(|job| (job.id, job.reservation)));
        }
        act @ 11..15 => {
            let Some((id, reservation)) = hold() else { return };
            match act {
                13 => drop(bench.release(&id, Some(reservation), None).await),
                14 => drop(bench.bury(&id, Some(reservation)).await),
                _ => drop(bench.finish(&id, Some(reservation)).await),
            }
        }
        15 => drop(bench.delete(&id(&name)).await),
        16 => {
            let change = due_in(Millis::new(rand::random_range(0..3_000)));
            drop(bench.reschedule(&id(&name), change).await);
        }
        17 => drop(bench.kick(&id(&name)).await),
        18 => {
            let (topic, state) = (self::topic(&topic), State::ALL[rand::random_range(0..4)]);
            let bucket = bench.bucket(&id(&name));
            bench.call::<verb::Purge>(bucket, Purge { topic, state, limit: 3 }).await;
        }
        _ => {
            bench.advance(Millis::new(rand::random_range(0..200)));
            drop(promote_in(&*bench.store, bench.bucket(&id(&name)), 50).await.expect("promote"));
        }
    }
}

pub async fn counts_equal_a_scan_after_a_hundred_thousand_random_calls(bench: Bench) {
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let bench = bench.clone();
        clients.spawn(async move {
            let mut held = Vec::new();
            for _ in 0..12_500 {
                random_call(&bench, &mut held).await;
            }
        });
    }
    clients.join_all().await;

    let found = Found::of(&*bench.store).await;
    assert_eq!((found.jobs.len(), found.damaged.len()), (bench.records().await, 0));
}
