//! Jobs from another store. They keep all fields, and behave as they would have in that store.

use delay_queue::{job::Job, store::verb};
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
    let popped = matches!(state, State::Reserved | State::Dead | State::Finished);
    let is_finished = state == State::Finished;
    let body = format!("{{ \"job\":\n\"{name}\" }}");
    Job {
        id: id(name),
        topic: topic.parse().expect("a topic"),
        body: if is_finished { Bytes::new() } else { body.into() },
        state,
        attempt: u32::from(popped),
        is_snoozed: false,
        due_at: if state == State::Delayed { now.after(HOUR) } else { now },
        created_at: now,
        ttr: MINUTE,
        policy: Policy {
            ttr: MINUTE,
            max_attempts: 3,
            dead_retention: RETENTION,
            finished_retention: if is_finished { HOUR } else { Millis::ZERO },
            dead_to: None,
            ..whole_policy()
        },
        reservation: popped.then(|| RESERVATION.parse().expect("a reservation")),
        reserved_until: (state == State::Reserved).then(|| now.after(MINUTE)),
        died_at: (state == State::Dead).then_some(now),
        error: (state == State::Dead).then(|| "it broke".to_owned()),
        ending: is_finished.then(|| Ending {
            at: now,
            outcome: Outcome::Finished,
            result: Some(format!("[\n\"{name}\" ]").into()),
        }),
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}

/// Reads all jobs of a store page by page, and sorts them by id. The counts of the topics must
/// match.
async fn all(bench: &Bench) -> Vec<Job> {
    let mut jobs = Vec::new();
    for bucket in bench.store.buckets().all() {
        let page = TopicPage { limit: 1000, ..TopicPage::default() };
        for (topic, peek) in bench.store.topics(bucket, page).await.expect("topics") {
            let mut listed = Counts::default();
            for state in State::ALL {
                let mut after = None;
                loop {
                    let page = bench
                        .store
                        .list(
                            bucket,
                            topic.clone(),
                            state,
                            JobRange { after, limit: 2, ..JobRange::default() },
                        )
                        .await;
                    let page = page.expect("a page");
                    *listed.of_mut(state) += page.jobs.len() as u64;
                    jobs.extend(page.jobs);
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
            }
            assert_eq!(listed, peek.counts, "{topic}");
        }
    }
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    jobs
}

async fn move_all(from: &Bench, to: &Bench) {
    for job in all(from).await {
        to.restore(job).await.expect("a free id");
    }
}

/// Puts jobs into topic `t` and brings them into every state in every way.
async fn put_jobs_with_all_pasts(bench: &Bench) {
    let backoff: Option<_> = Some("list:1800000".parse().expect("a backoff"));
    for name in ["bury", "spent", "lapsed", "waits", "given-back"] {
        let max_attempts = if name == "spent" { 1 } else { 20 };
        let backoff = backoff.clone().filter(|_| name == "waits");
        let new = with(job(name, "t"), |policy| {
            (policy.max_attempts, policy.backoff) = (max_attempts, backoff);
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
    bench.advance(MINUTE);
    bench.promote().await;
    for name in ["moved", "moved-unpopped"] {
        let new = with(job(name, "dying"), |policy| {
            policy.dead_to = Some("moved".parse().expect("a topic"));
            policy.expires_after = (name == "moved-unpopped").then_some(SECOND);
        });
        bench.put(new).await.expect("put");
        if name == "moved" {
            let popped = bench.pop_one("dying").await;
            bench.bury(&popped.id, Some(popped.reservation)).await.expect("buried");
        }
    }
    bench.advance(SECOND);
    bench.promote().await;
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
        for job in all(&there).await {
            assert_eq!(there.get(&job.id).await, Some(job), "a get and a list differ");
        }
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
    bench.advance(MINUTE);
    bench.promote().await;
    let lapsed = bench.get(&id("c")).await.expect("the job exists");
    assert_eq!((lapsed.state, lapsed.error.as_deref()), (State::Ready, Some("ttr expired")));
    assert_eq!(
        Some(lapsed.due_at),
        deadline.map(|at| at.after(SECOND)),
        "the job is not due after its backoff"
    );
    assert_eq!(
        bench.finish(&id("c"), Some(reservation)).await,
        Ok(()),
        "the last reservation is refused although the job was not popped again"
    );
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

pub async fn restored_dead_jobs_can_be_kicked_and_are_removed_in_time(bench: Bench) {
    for name in ["a", "b"] {
        bench.restore(stored(&bench, name, "t", State::Dead)).await.expect("a free id");
    }
    let topic = bench.kick(&id("a")).await.map(|job| job.topic.to_string());
    assert_eq!(topic, Ok("t".to_owned()));
    assert_eq!(bench.get(&id("a")).await.map(|job| job.attempt), Some(0));
    bench.advance(Millis::new(RETENTION.get() - 1));
    bench.promote().await;
    assert_eq!(bench.state(&id("b")).await, Some(State::Dead));
    bench.advance(Millis::new(1));
    bench.promote().await;
    assert_eq!(bench.state(&id("b")).await, None);
}

pub async fn an_existing_id_is_not_restored_and_the_others_are(bench: Bench) {
    let bucket = bench.store.buckets().all().next().expect("a bucket");
    let mine = |n: &u32| bench.bucket(&id(&format!("job:{n}"))) == bucket;
    let names: Vec<String> = (0..).filter(mine).take(3).map(|n| format!("job:{n}")).collect();
    bench.put(job(&names[1], "t")).await.expect("put");
    let living = bench.get(&id(&names[1])).await;
    let batch = [0, 1, 2, 0].map(|n| stored(&bench, &names[n], "t", State::Delayed));
    let replies = bench.call::<verb::Restore>(bucket, batch.to_vec()).await;
    assert_eq!(replies, [Ok(()), Err(Refusal::Exists(None)), Ok(()), Err(Refusal::Exists(None))]);
    assert_eq!(bench.get(&id(&names[1])).await, living);
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
    let page = from
        .store
        .list(
            bucket,
            "t".parse().expect("topic"),
            State::Ready,
            JobRange { limit: 9, ..JobRange::default() },
        )
        .await;
    to.call::<verb::Restore>(bucket, page.expect("a page").jobs).await;
    let to = to.reopen().await;
    let popped: Vec<String> = to.pop("t", 4).await.iter().map(|job| job.id.to_string()).collect();
    assert_eq!(popped, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_restores_nothing() {
    let bench = Bench::redis().await;
    let crate::store::bench::Backend::Redis(redis) = &bench.backend else {
        unreachable!("this store is on Redis")
    };
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    let job = stored(&bench, "a", "t", State::Dead);
    let refused = bench.store.call_in::<verb::Restore>(bench.bucket(&job.id), vec![job]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("full")));
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    assert_eq!(all(&bench).await, []);
}

/// Calls on a job before it is restored in the other store.
#[derive(Debug, Clone)]
struct Past {
    body: Vec<u8>,
    delay: u64,
    max_attempts: u32,
    backoff: Option<&'static str>,
    retention: u64,
    finished_retention: u64,
    /// For each pop, the call after it, and the time until the next pop.
    attempts: Vec<(u8, u64)>,
}

fn past() -> impl Strategy<Value = Past> {
    let backoff = prop_oneof![Just("list:0"), Just("list:512,90000"), Just("exp:1000:2:9000:0.5")];
    let attempts = proptest::collection::vec((0..6_u8, 0..100_000_u64), 0..4);
    let body = any::<String>().prop_map(|text| serde_json::to_vec(&text).expect("JSON"));
    (body, 0..3_u64, 0..4_u32, proptest::option::of(backoff), attempts).prop_map(
        |(body, delay, max_attempts, backoff, attempts)| Past {
            body,
            delay: delay * 60_000,
            max_attempts,
            backoff,
            retention: delay * 70_000 + 1,
            finished_retention: delay * 50_000,
            attempts,
        },
    )
}

async fn make_calls(bench: &Bench, pasts: &[Past]) {
    for (number, past) in pasts.iter().enumerate() {
        let topic = format!("t{number}");
        let new = job(&format!("job:{number}"), &topic);
        let put = bench.put(NewJob {
            body: past.body.clone().into(),
            schedule: Schedule::In(Millis::new(past.delay)),
            ..with(new, |policy| {
                policy.max_attempts = past.max_attempts;
                policy.backoff = past.backoff.map(|text| text.parse().expect("a backoff"));
                policy.dead_retention = Millis::new(past.retention);
                policy.finished_retention = Millis::new(past.finished_retention);
            })
        });
        put.await.expect("a free id");
        for &(act, wait) in &past.attempts {
            for popped in bench.pop_with(&topic, 1, (act == 3).then_some(HOUR)).await {
                let hold = Some(popped.reservation);
                match act {
                    0 => drop(bench.release(&popped.id, hold, None).await),
                    1 => drop(bench.bury(&popped.id, hold).await),
                    4 => {
                        let is_kept = past.finished_retention > 0;
                        let result = is_kept.then(|| past.body.clone().into());
                        bench.finish_with(&popped.id, hold, result).await.expect("finished");
                    }
                    5 => drop(bench.delete_remembered(&popped.id, MINUTE).await),
                    _ => {}
                }
            }
            bench.advance(Millis::new(wait));
            bench.promote().await;
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
                bench.advance(Millis::new(later));
                bench.promote().await;
            }
            assert_eq!(all(&to).await, all(&from).await, "{later} ms later");
        });
    }
}
