//! Due times and deadlines, with the time passed in.

use delay_queue::job::MAX_DURATION;

use crate::store::prelude::*;

pub async fn a_job_is_ready_at_its_due_time_and_not_before(bench: Bench) {
    let placed = bench.put(delayed("a", "t", SECOND)).await.expect("put");
    assert_eq!((placed.state, placed.due_at), (State::Delayed, START.after(SECOND)));
    bench.promote_after(Millis::new(999)).await;
    assert!(bench.pop("t", 1).await.is_empty());
    bench.advance(Millis::new(1));
    assert!(bench.pop("t", 1).await.is_empty(), "the job is ready before it was promoted");
    let moved = bench.promote().await.topics;
    let ready =
        PromoteCounts { ready: ReadyJobs::one(Priority::STANDARD), ..PromoteCounts::default() };
    assert_eq!(moved, [(topic("t"), ready)]);
    assert_eq!(bench.pop_one("t").await.due_at, START.after(SECOND));
}

pub async fn a_past_due_time_is_now_and_one_too_far_is_refused(bench: Bench) {
    let at = |name: &str, time| NewJob { schedule: Schedule::At(time), ..job(name, "t") };
    let placed = bench.put(at("past", UnixMillis::new(0))).await.expect("put");
    assert_eq!((placed.state, placed.due_at), (State::Ready, START));
    let last = START.after(MAX_DURATION);
    assert_eq!(bench.put(at("last", last)).await.map(|placed| placed.due_at), Ok(last));
    let beyond = last.after(Millis::new(1));
    assert_eq!(bench.put(at("beyond", beyond)).await, Err(Refusal::DueTooFar));
    assert_eq!(bench.get(&id("beyond")).await, None);
}

/// Backoffs of all kinds, some of them with factors and jitters of many digits.
const BACKOFFS: [&str; 9] = [
    "list:0,120000,600000",
    "exp:1000:2:60000:0.5",
    "exp:1500:1.7:3600000:0.25",
    "exp:1:1000:315576000000:1",
    "exp:1000:1.618033988749895:3600000:0",
    "exp:1000:1.4142135623730951:3600000:0.30000000000000004",
    "exp:60000:1.1000000000000001:315576000000:0.000000000000000000001",
    "exp:1000:1.0000000000000002:3600000:1",
    "exp:1000:2:60000:-0",
];

/// Calls `end` for five attempts of jobs with all backoffs, with the wait after the attempt. `end`
/// ends the attempt and checks the due time.
async fn each_attempt(bench: &Bench, mut end: impl AsyncFnMut(PoppedJob, Millis, String)) {
    for (number, text) in BACKOFFS.iter().enumerate() {
        let (name, topic, backoff) = (format!("job:{number}"), format!("t{number}"), backoff(text));
        let new = with(job(&name, &topic), |policy| policy.backoff = Some(backoff.clone()));
        bench.put(new).await.expect("put");
        for attempt in 1..=5 {
            let popped = bench.pop_one(&topic).await;
            assert_eq!(popped.attempt, attempt);
            let delay = backoff.delay(&popped.id, attempt);
            end(popped, delay, format!("{text} {attempt}")).await;
            bench.promote_after(delay).await;
        }
    }
}

pub async fn an_expired_ttr_waits_its_backoff_counted_from_the_deadline(bench: Bench) {
    each_attempt(&bench, async |popped, delay, case| {
        // A late promote must not change later due times.
        bench.promote_after(Millis::new(60_777)).await;
        let job = bench.job(popped.id.as_str()).await;
        assert_eq!(job.due_at, popped.reserved_until.after(delay), "{case}");
        let state = if delay.get() <= 777 { State::Ready } else { State::Delayed };
        assert_eq!(job.state, state, "{case}");
    })
    .await;
}

pub async fn a_release_without_a_delay_waits_the_backoff(bench: Bench) {
    each_attempt(&bench, async |popped, delay, case| {
        let moved = bench.release(&popped.id, Some(popped.reservation), None).await;
        let moved = moved.expect("release");
        assert_eq!((moved.due_at, moved.died), (bench.now().after(delay), false), "{case}");
    })
    .await;
}

pub async fn attempts_are_counted_and_spent(bench: Bench) {
    bench.put(with(job("a", "t"), |policy| policy.max_attempts = 3)).await.expect("put");
    bench.put(with(job("b", "endless"), |policy| policy.max_attempts = 0)).await.expect("put");
    for attempt in 1..=3 {
        assert_eq!(bench.pop_one("t").await.attempt, attempt);
        assert_eq!(bench.pop_one("endless").await.attempt, attempt);
        bench.promote_after(MINUTE).await;
    }
    let dead = bench.job("a").await;
    assert_eq!((dead.state, dead.attempt), (State::Dead, 3));
    assert_eq!(dead.died_at, Some(bench.now()));
    assert_eq!(dead.error.as_deref(), Some("ttr ended"));
    assert!(bench.pop("t", 1).await.is_empty());
    assert_eq!(bench.state(&id("b")).await, Some(State::Ready));

    bench.kick(&id("a")).await.expect("kick");
    let kicked = bench.pop_one("t").await;
    assert_eq!((kicked.attempt, kicked.due_at), (1, bench.now()));
}

pub async fn dead_jobs_are_kept_for_their_retention(bench: Bench) {
    let long = bench.buried(job("long", "t")).await.id;
    let short = with(job("short", "t"), |policy| {
        (policy.dead_retention, policy.max_attempts) = (SECOND, 1);
    });
    let short = bench.popped(short).await.id;
    let dead = bench.job("long").await;
    assert_eq!((dead.died_at, dead.error.as_deref()), (Some(START), Some("buried")));
    let bench = bench.reopen().await;
    let dead = Some(State::Dead);
    // The second job dies after a minute.
    let steps = [
        (MINUTE, [dead, dead], 0),
        (SECOND, [dead, None], 1),
        (Millis::new(RETENTION.get() - 61_001), [dead, None], 0),
        (Millis::new(1), [None, None], 1),
    ];
    for (span, states, expected) in steps {
        bench.advance(span);
        let gone = bench.promote().await.total().gone;
        assert_eq!((bench.states([&long, &short]).await, gone), (states.to_vec(), expected));
    }
    bench.put(job("long", "t")).await.expect("the id is free again");
}

pub async fn a_touch_moves_the_deadline(bench: Bench) {
    let popped = bench.popped(job("a", "t")).await;
    let hold = Some(popped.reservation);
    bench.advance(Millis::new(59_999));
    let until = bench.touch(&popped.id, hold, None).await;
    assert_eq!(until, Ok(bench.now().after(MINUTE)));
    bench.promote_after(Millis::new(59_999)).await;
    assert_eq!(bench.state(&popped.id).await, Some(State::Reserved));
    // A touch may also shorten the TTR. Later touches without a TTR use the shorter one.
    let until = bench.touch(&popped.id, hold, Some(SECOND)).await;
    assert_eq!(until, Ok(bench.now().after(SECOND)));
    assert_eq!(bench.touch(&popped.id, hold, None).await, until);
    bench.promote_after(SECOND).await;
    assert_eq!(bench.state(&popped.id).await, Some(State::Ready));
}

pub async fn a_pop_can_set_another_ttr_for_its_attempt(bench: Bench) {
    bench.put(job("a", "t")).await.expect("put");
    let popped = bench.pop_as("t", 1, Some(HOUR), None).await.remove(0);
    assert_eq!((popped.ttr, popped.reserved_until), (HOUR, bench.now().after(HOUR)));
    assert_eq!(bench.get(&popped.id).await.map(|job| job.ttr), Some(HOUR));
    bench.promote_after(HOUR).await;
    assert_eq!(bench.pop_one("t").await.ttr, MINUTE);
}

pub async fn the_next_deadline_is_never_reported_too_late(bench: Bench) {
    let name = id("a");
    let bucket = bench.bucket(&name);
    let next = async || {
        peek_in(&*bench.store, bucket, vec![]).await.expect("look").next.map(|next| next.wait)
    };
    assert_eq!(next().await, None);
    bench.put(delayed("a", "t", HOUR)).await.expect("put");
    assert_eq!(next().await, Some(HOUR.into()));
    bench.reschedule(&name, due_in(MINUTE)).await.expect("reschedule");
    assert_eq!(next().await, Some(MINUTE.into()));
    bench.delete(&name).await.expect("delete");
    assert_eq!(next().await, None, "a deadline remains after all jobs were removed");
    bench.put(job("a", "t")).await.expect("put");
    assert_eq!(next().await, None, "a ready job has left a deadline");
    bench.pop_one("t").await;
    assert_eq!(next().await, Some(MINUTE.into()));
    bench.advance(HOUR);
    assert_eq!(next().await, Some(std::time::Duration::ZERO));
    // A store may report the deadline once more before it notices that no job has it.
    assert_eq!(bench.promote().await.total().timed_out, 1);
    assert_eq!(next().await, None);
    // A reschedule must not remove the earlier deadline of another job.
    let others = (0..).map(|n: u32| id(&n.to_string())).filter(|id| bench.bucket(id) == bucket);
    let [first, moved] = &others.take(2).collect::<Vec<_>>()[..] else { unreachable!("two ids") };
    bench.put(delayed(first.as_str(), "t", MINUTE)).await.expect("put");
    bench.put(delayed(moved.as_str(), "t", HOUR)).await.expect("put");
    bench.reschedule(moved, due_in(RETENTION)).await.expect("reschedule");
    assert_eq!(next().await, Some(MINUTE.into()));
    // Nor must a touch.
    for id in [first, moved] {
        bench.delete(id).await.expect("delete");
        bench.put(job(id.as_str(), "u")).await.expect("put");
        bench.pop_one("u").await;
    }
    bench.touch(moved, None, Some(HOUR)).await.expect("touch");
    assert_eq!(next().await, Some(MINUTE.into()));
}

pub async fn the_next_deadline_after_a_batch_is_its_earliest(bench: Bench) {
    let (bucket, ids) = bench.ids(9);
    let wait = |next: Option<Next>| next.map(|next| next.wait);
    // The first batch has its earliest deadline in the middle. The second has no earlier deadline,
    // and the third has one.
    let batches = [([70, 50, 90], 50), ([60, 80, 100], 50), ([40, 10, 20], 10)];
    for (ids, (seconds, earliest)) in ids.chunks(3).zip(batches) {
        let delays = seconds.map(|delay| Millis::new(delay * 1_000));
        let batch = ids.iter().zip(delays).map(|(id, delay)| delayed(id.as_str(), "t", delay));
        bench.call::<verb::Put>(bucket, batch.collect()).await;
        let next = peek_in(&*bench.store, bucket, vec![]).await.expect("look").next;
        assert_eq!(wait(next), Some(Duration::from_secs(earliest)), "{seconds:?}");
    }
    bench.advance(Millis::new(10_000));
    let promoted = promote_in(&*bench.store, bucket, 100).await.expect("promote");
    assert_eq!(promoted.total().ready.count, 1);
    let expected = Some(Duration::from_secs(10));
    assert_eq!(wait(promoted.next), expected, "the wait does not end at the deadline at 20 s");
}

/// Returns the time of this machine in microseconds, since a test's clock has only milliseconds.
/// The Redis processes of the test use the same clock.
#[expect(clippy::disallowed_methods, reason = "compares with the store's own clock")]
fn micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_micros()).expect("the microseconds fit")
}

pub async fn no_wait_is_shorter_by_a_part_of_a_millisecond(bench: Bench) {
    let bench = bench.reopen_by(Clock::Own).await;
    let span = Millis::new(3_000);
    let within = |before: u64, time: UnixMillis, what: &str| {
        let least = before + span.get() * 1_000;
        assert!(time.get() * 1_000 >= least, "{what}: called at {before} µs, but ends at {time:?}");
    };
    // Each call begins at another fraction of a millisecond.
    for number in 0..50 {
        let (name, topic) = (format!("delayed:{number}"), format!("t{number}"));
        let before = micros();
        let placed = bench.put(delayed(&name, "delayed", span)).await.expect("put");
        within(before, placed.due_at, "put");

        let now = job(&format!("now:{number}"), &topic);
        let bucket = bench.bucket(&now.id);
        bench.put(now).await.expect("put");
        let before = micros();
        let want = PopRequest { ttr: Some(span), ..want(&topic, 1) };
        let popped = &bench.pop_in(bucket, vec![want]).await[0].jobs[0];
        within(before, popped.reserved_until, "pop");
        let before = micros();
        let until = bench.touch(&popped.id, Some(popped.reservation), Some(span)).await;
        within(before, until.expect("touch"), "touch");
        let before = micros();
        let moved = bench.release(&popped.id, Some(popped.reservation), Some(span)).await;
        within(before, moved.expect("release").due_at, "release");
        let before = micros();
        let moved = bench.reschedule(&popped.id, due_in(span)).await.expect("reschedule");
        within(before, moved.due_at, "reschedule");
    }
}

pub async fn promoting_goes_in_bounded_steps(bench: Bench) {
    let (bucket, ids) = bench.ids(25);
    let topics = ["even", "odd"].into_iter().cycle();
    let jobs = ids.iter().zip(topics).map(|(id, topic)| delayed(id.as_str(), topic, SECOND));
    bench.call::<verb::Put>(bucket, jobs.collect()).await;
    bench.advance(SECOND);
    let mut steps = Vec::new();
    loop {
        let promoted = promote_in(&*bench.store, bucket, 10).await.expect("promote");
        steps.push(promoted.total().ready.count);
        if promoted.next.is_none() {
            break;
        }
        assert!(promoted.next.is_some_and(Next::has_passed));
    }
    assert_eq!(steps, [10, 10, 5]);
    assert_eq!(bench.ready("even").await + bench.ready("odd").await, 25);
}
