//! Jobs from another store. They keep all fields, and behave as they would have in that store.

use proptest::prelude::*;

use crate::store::calls::step;
use crate::store::equivalence::{REDIS, RUNTIME, pops_a_tie};
use crate::store::prelude::*;

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
        reservation: popped.then(|| "0123456789abcdef".parse().expect("a reservation")),
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
    for name in ["bury", "kicked", "spent", "lapsed", "waits", "given-back"] {
        let new = with(job(name, "t"), |policy| {
            policy.max_attempts = if name == "spent" { 1 } else { 20 };
            policy.backoff = (name == "waits").then(|| backoff("list:1800000"));
        });
        bench.put(new).await.expect("put");
    }
    for popped in bench.pop_as("t", 6, None, Some("w/1")).await {
        let hold = Some(popped.reservation);
        match popped.id.as_str() {
            "bury" | "kicked" => bench.bury(&popped.id, hold).await.expect("buried"),
            "given-back" => {
                bench.release(&popped.id, hold, Some(Millis::ZERO)).await.expect("released");
                let again = one(bench.pop("t", 1).await);
                bench.unpop(&again.id, again.reservation).await.expect("given back");
            }
            _ => {}
        }
    }
    bench.kick(&id("kicked")).await.expect("kicked");
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
    let popped = with(job("held", "other"), |policy| policy.dead_retention = HOUR);
    let (held, error) = (held(&bench.popped(popped).await), Some("é\n".to_owned()));
    let release = Release { delay: Some(Millis::ZERO), error, ..Release::new(held) };
    bench.release_by(release).await.expect("released");
    let held = bench.pop_as("other", 1, Some(HOUR), Some("w/2")).await.remove(0);
    bench.advance(SECOND);
    bench.touch(&held.id, Some(held.reservation), None).await.expect("touched");
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
    assert_eq!(bench.promote().await.total().ready.count, 2);
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

proptest! {
    #![proptest_config(Config { cases: 16, ..Config::default() })]

    #[test]
    fn restored_jobs_behave_as_in_their_first_store(
        before in proptest::collection::vec(step(), 1..50),
        after in proptest::collection::vec(step(), 1..20),
        to_redis: bool,
    ) {
        let redis = REDIS.with(Bench::clone);
        RUNTIME.block_on(async {
            let (file, redis) = (Bench::file().await, redis.fresh().await);
            let (from, to) = if to_redis { (file, redis) } else { (redis, file) };
            let mut first = StoreUnderTest::new(from);
            for (number, step) in (0..).zip(&before) {
                run_step(&mut first, number, step).await;
            }
            let from = &first.bench;
            from.promote().await;
            to.advance(from.now().since(to.now()));
            to.promote().await;
            move_all(from, &to).await;
            assert_eq!(all(&to).await, all(from).await);
            // The reservations of the first store are valid in the other one.
            let mut second = StoreUnderTest { bench: to, given: first.given.clone() };
            for (number, step) in (before.len() as u64..).zip(&after) {
                if pops_a_tie(step, first.everything().await.0.into_iter().flatten()) {
                    continue;
                }
                let expected = run_step(&mut first, number, step).await;
                assert_eq!(run_step(&mut second, number, step).await, expected, "{step:?}");
                assert_eq!(second.everything().await, first.everything().await, "after {step:?}");
            }
        });
    }
}
