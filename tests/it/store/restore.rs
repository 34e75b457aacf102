//! Jobs from another store. They keep all fields, and behave as they would have in that store.

use proptest::prelude::*;

use crate::store::prelude::*;

const RESERVATION: &str = "0123456789abcdef";

/// Returns a job as a store may have it in this state. Reserved, dead and finished jobs were popped
/// once.
pub fn stored(bench: &Bench, name: &str, topic: &str, state: State) -> Job {
    stored_at(bench.now(), name, topic, state)
}

/// Returns such a job at this time, without a store.
pub fn stored_at(now: UnixMillis, name: &str, topic: &str, state: State) -> Job {
    let is = |other| state == other;
    let popped = is(State::Reserved) || is(State::Dead) || is(State::Finished);
    let result = Some(format!("[\n\"{name}\" ]").into());
    let body = format!("{{ \"job\":\n\"{name}\" }}").into();
    let policy = Policy {
        ttr: MINUTE,
        max_attempts: 3,
        dead_retention: RETENTION,
        finished_retention: if is(State::Finished) { HOUR } else { Millis::ZERO },
        dead_to: None,
        ..whole_policy()
    };
    let new = NewJob {
        body: if is(State::Finished) { Bytes::new() } else { body },
        policy,
        ..job(name, topic)
    };
    let due_at = if is(State::Delayed) { now.after(HOUR) } else { now };
    Job {
        state,
        attempt: u32::from(popped),
        reservation: popped.then(|| RESERVATION.parse().expect("a reservation")),
        reserved_until: is(State::Reserved).then(|| now.after(MINUTE)),
        died_at: is(State::Dead).then_some(now),
        error: is(State::Dead).then(|| "it broke".to_owned()),
        ending: is(State::Finished).then_some(Ending {
            at: now,
            outcome: Outcome::Finished,
            result,
        }),
        ..created(new, now, due_at)
    }
}

/// Lists all jobs of a store, sorted by their ids.
async fn all(bench: &Bench) -> Vec<Job> {
    let found = Found::of(&*bench.store).await;
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
    found.jobs.into_values().collect()
}

async fn move_all(from: &Bench, to: &Bench) {
    for job in all(from).await {
        to.restore(job).await.expect("a free id");
    }
}

/// Puts jobs into topic `t` and brings them into every state in every way.
async fn put_jobs_with_all_pasts(bench: &Bench) {
    for name in ["bury", "spent", "lapsed", "waits", "given-back"] {
        let new = with(job(name, "t"), |policy| {
            policy.max_attempts = if name == "spent" { 1 } else { 20 };
            policy.backoff = (name == "waits").then(|| backoff("list:1800000"));
        });
        bench.put(new).await.expect("put");
    }
    for popped in bench.pop("t", 5).await {
        let hold = Some(popped.reservation);
        match popped.id.as_str() {
            "bury" => bench.bury(&popped.id, hold).await.expect("buried"),
            "given-back" => {
                bench.release(&popped.id, hold, Some(Millis::ZERO)).await.expect("released");
                let again = one(bench.pop("t", 1).await);
                bench.unpop(&again.id, again.reservation).await.expect("given back");
            }
            _ => {}
        }
    }
    bench.promote_after(MINUTE).await;
    for name in ["moved", "moved-unpopped"] {
        let new = with(job(name, "dying"), |policy| {
            policy.dead_to = Some(topic("moved"));
            policy.expires_after = (name == "moved-unpopped").then_some(SECOND);
        });
        match name {
            "moved" => drop(bench.buried(new).await),
            _ => drop(bench.put(new).await.expect("put")),
        }
    }
    bench.promote_after(SECOND).await;
    let held = with(job("held", "other"), |policy| policy.dead_retention = HOUR);
    bench.put(held).await.expect("put");
    assert_eq!(bench.pop_with("other", 1, Some(HOUR)).await.len(), 1);
    bench.put(job("ready", "t")).await.expect("put");
    bench.put(delayed("delayed", "t", HOUR)).await.expect("put");
    let results = [None, Some("{ }".into()), Some("1".repeat(5_000).into())];
    for (number, result) in results.into_iter().enumerate() {
        bench.finished(kept(job(&format!("done:{number}"), "u"), HOUR), result).await;
    }
    bench.put(delayed("forgotten", "u", MINUTE)).await.expect("put");
    bench.delete_remembered(&id("forgotten"), HOUR).await.expect("deleted");
}

pub async fn a_restored_job_equals_the_job_of_the_other_store(bench: Bench) {
    put_jobs_with_all_pasts(&bench).await;
    let states: Vec<State> = all(&bench).await.iter().map(|job| job.state).collect();
    assert!(State::ALL.iter().all(|state| states.contains(state)), "{states:?}");
    for there in [Bench::file().await, Bench::shared_redis().await] {
        there.advance(bench.now().since(there.now()));
        move_all(&bench, &there).await;
        assert_eq!(all(&there).await, all(&bench).await);
        // After a restart, the jobs must be the same.
        let there = there.reopen().await;
        assert_eq!(all(&there).await, all(&bench).await);
    }
}

pub async fn a_restored_reservation_is_valid_and_its_ttr_expires(bench: Bench) {
    for name in ["a", "b", "c"] {
        bench.restore(stored(&bench, name, "t", State::Reserved)).await.expect("a free id");
    }
    let reservation = RESERVATION.parse().expect("a reservation");
    assert!(bench.pop("t", 9).await.is_empty());
    assert_eq!(bench.finish(&id("a"), Some(Reservation::NONE)).await, Err(LOST));
    assert_eq!(bench.finish(&id("a"), Some(reservation)).await, Ok(()));
    bench.advance(SECOND);
    let until = bench.touch(&id("b"), Some(reservation), None).await;
    assert_eq!(until, Ok(bench.now().after(MINUTE)));
    let deadline = bench.get(&id("c")).await.and_then(|job| job.reserved_until);
    bench.promote_after(MINUTE).await;
    let lapsed = bench.job("c").await;
    assert_eq!((lapsed.state, lapsed.error.as_deref()), (State::Ready, Some("ttr expired")));
    let due_at = deadline.map(|at| at.after(SECOND));
    assert_eq!(Some(lapsed.due_at), due_at, "the job is not due after its backoff");
    assert_eq!(bench.finish(&id("c"), Some(reservation)).await, Ok(()), "not popped again");
}

pub async fn a_lapsed_restored_job_is_finished_by_its_reservation(bench: Bench) {
    let reservation = RESERVATION.parse().expect("a reservation");
    let lapsed = |name, state| Job {
        attempt: 2,
        reservation: Some(reservation),
        error: Some("ttr expired".to_owned()),
        ..stored(&bench, name, "t", state)
    };
    for (name, state) in [("a", State::Ready), ("b", State::Delayed), ("c", State::Ready)] {
        bench.restore(lapsed(name, state)).await.expect("a free id");
    }
    assert_eq!(bench.finish(&id("a"), Some(reservation)).await, Ok(()));
    assert_eq!(bench.finish(&id("b"), Some(reservation)).await, Ok(()));
    let popped = bench.pop_one("t").await;
    assert_eq!((popped.id.as_str(), popped.attempt), ("c", 3));
    assert_eq!(bench.finish(&id("c"), Some(reservation)).await, Err(LOST));
    let moved = bench.release(&id("c"), Some(popped.reservation), None).await;
    assert!(moved.expect("released").died, "the job has more than three attempts");
}

pub async fn an_existing_id_is_not_restored_and_the_others_are(bench: Bench) {
    let (bucket, ids) = bench.ids(3);
    bench.put(job(ids[1].as_str(), "t")).await.expect("put");
    let living = bench.get(&ids[1]).await;
    let batch = [0, 1, 2, 0].map(|n| stored(&bench, ids[n].as_str(), "t", State::Delayed));
    let replies = bench.call::<verb::Restore>(bucket, batch.to_vec()).await;
    assert_eq!(replies, [Ok(()), Err(Refusal::Exists(None)), Ok(()), Err(Refusal::Exists(None))]);
    assert_eq!(bench.get(&ids[1]).await, living);
    assert_eq!(all(&bench).await.len(), 3);
    // The timer knows the deadlines of restored jobs.
    bench.advance(HOUR);
    let promoted = bench.promote().await;
    assert_eq!(promoted.iter().map(|p| p.total().ready.count).sum::<u64>(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_one_due_time_keep_their_order_in_a_file() {
    let (from, to) = (Bench::file().await, Bench::file().await);
    let names = ["c", "a", "d", "b"];
    for name in names {
        from.put(job(name, "t")).await.expect("put");
    }
    let bucket = from.bucket(&id("a"));
    let all = JobRange { limit: 9, ..JobRange::default() };
    let jobs = from.list(bucket, "t", State::Ready, all).await.jobs;
    to.call::<verb::Restore>(bucket, jobs).await;
    let to = to.reopen().await;
    assert_eq!(to.pop_ids("t", 4).await, names.map(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_restores_nothing() {
    let bench = Bench::redis().await;
    command(&bench, "CONFIG SET maxmemory 1");
    let job = stored(&bench, "a", "t", State::Dead);
    let refused = bench.store.call_in::<verb::Restore>(bench.bucket(&job.id), vec![job]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("full")));
    command(&bench, "CONFIG SET maxmemory 0");
    assert_eq!(all(&bench).await, []);
}

/// Calls on a job before it is restored in the other store.
#[derive(Debug, Clone)]
struct Past {
    body: Bytes,
    delay: Millis,
    policy: Policy,
    /// For each pop, the call after it, and the time until the next pop.
    attempts: Vec<(u8, u64)>,
}

fn past() -> impl Strategy<Value = Past> {
    let backoff = prop_oneof![Just("list:0"), Just("list:512,90000"), Just("exp:1000:2:9000:0.5")];
    let attempts = proptest::collection::vec((0..6_u8, 0..100_000_u64), 0..4);
    let body = any::<String>().prop_map(|text| serde_json::to_vec(&text).expect("JSON"));
    (body, 0..3_u64, 0..4_u32, proptest::option::of(backoff), attempts).prop_map(
        |(body, minutes, max_attempts, backoff, attempts)| {
            let policy = Policy {
                max_attempts,
                backoff: backoff.map(self::backoff),
                dead_retention: Millis::new(minutes * 70_000 + 1),
                finished_retention: Millis::new(minutes * 50_000),
                ..job("any", "any").policy
            };
            Past { body: body.into(), delay: Millis::new(minutes * 60_000), policy, attempts }
        },
    )
}

async fn make_calls(bench: &Bench, pasts: &[Past]) {
    for (number, past) in pasts.iter().enumerate() {
        let topic = format!("t{number}");
        let new = delayed(&format!("job:{number}"), &topic, past.delay);
        let (body, policy) = (past.body.clone(), past.policy.clone());
        bench.put(NewJob { body, policy, ..new }).await.expect("a free id");
        for &(act, wait) in &past.attempts {
            for popped in bench.pop_with(&topic, 1, (act == 3).then_some(HOUR)).await {
                let hold = Some(popped.reservation);
                match act {
                    0 => drop(bench.release(&popped.id, hold, None).await),
                    1 => drop(bench.bury(&popped.id, hold).await),
                    4 => {
                        let is_kept = past.policy.finished_retention > Millis::ZERO;
                        let result = is_kept.then(|| past.body.clone());
                        bench.finish_with(&popped.id, hold, result).await.expect("finished");
                    }
                    5 => drop(bench.delete_remembered(&popped.id, MINUTE).await),
                    _ => {}
                }
            }
            bench.promote_after(Millis::new(wait)).await;
        }
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

thread_local! {
    /// Dropped at the end of the test's thread, which stops Redis.
    static REDIS: Bench = RUNTIME.block_on(Bench::redis());
}

proptest! {
    #![proptest_config(Config { cases: 100, ..Config::default() })]

    #[test]
    fn restored_jobs_behave_as_in_their_first_store(
        pasts in proptest::collection::vec(past(), 1..6),
        to_redis: bool,
        later in 0..200_000_u64,
    ) {
        let redis = REDIS.with(Bench::clone);
        RUNTIME.block_on(async {
            let (file, redis) = (Bench::file().await, redis.fresh().await);
            let (from, to) = if to_redis { (file, redis) } else { (redis, file) };
            make_calls(&from, &pasts).await;
            to.advance(from.now().since(to.now()));
            move_all(&from, &to).await;
            assert_eq!(all(&to).await, all(&from).await);
            for bench in [&from, &to] {
                bench.promote_after(Millis::new(later)).await;
            }
            assert_eq!(all(&to).await, all(&from).await, "{later} ms later");
        });
    }
}
