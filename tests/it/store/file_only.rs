//! Properties that only the file store has: a directory, a lock, a disk.

use rusqlite::Connection;

use crate::store::matching::all_steps;
use crate::store::prelude::*;

#[tokio::test]
async fn a_reservation_ends_in_time_after_a_start_in_the_past() {
    let bench = Bench::file().await;
    bench.popped(with(job("held", "t"), |policy| policy.ttr = SECOND)).await;
    let earlier = UnixMillis::new(START.get() - MINUTE.get());
    let bench = bench.reopen_by(Clock::set_at(earlier)).await;
    let held = bench.job("held").await;
    assert_eq!(held.reserved_until, Some(earlier.after(SECOND)));
    bench.promote_after(SECOND).await;
    assert_eq!(bench.state(&id("held")).await, Some(State::Ready));
}

#[tokio::test]
async fn ready_jobs_are_ready_after_a_start_in_the_past() {
    let bench = Bench::file().await;
    bench.put(job("put", "t")).await.expect("put");
    let popped = bench.popped(job("released", "r")).await;
    bench.release(&popped.id, None, Some(Millis::ZERO)).await.expect("released");
    let dying = with(job("moved", "m"), |policy| {
        policy.expires_after = Some(SECOND);
        policy.dead_to = Some(topic("t"));
    });
    bench.put(dying).await.expect("put");
    bench.put(delayed("delayed", "t", MINUTE)).await.expect("put");
    bench.put(job("changed", "t")).await.expect("put");
    bench.promote_after(SECOND).await;
    let earlier = UnixMillis::new(START.get() - HOUR.get());
    let bench = bench.reopen_by(Clock::set_at(earlier)).await;
    for name in ["put", "released", "moved", "changed"] {
        assert_eq!(bench.state(&id(name)).await, Some(State::Ready), "{name}");
    }
    assert_eq!(bench.state(&id("delayed")).await, Some(State::Delayed));
    assert_eq!(bench.store.condition().clock_jumps.count, 1);
    // By the corrected clock, this time is before the creation of the job.
    let schedule = Some(Schedule::At(earlier.after(MINUTE)));
    let change = Change { schedule, ..Change::default() };
    bench.reschedule(&id("changed"), change).await.expect("changed");
    let bench = bench.reopen_by(Clock::set_at(earlier)).await;
    assert_eq!(bench.state(&id("changed")).await, Some(State::Delayed));
    assert_eq!(bench.pop("t", 9).await.len(), 2);
}

#[tokio::test]
async fn a_small_correction_of_the_clock_is_not_reported() {
    let bench = Bench::file().await;
    bench.put(job("a", "t")).await.expect("put");
    let bench = bench.reopen_by(Clock::set_at(UnixMillis::new(START.get() - 3_000))).await;
    assert_eq!(bench.store.condition().clock_jumps.count, 0);
    assert_eq!(bench.state(&id("a")).await, Some(State::Ready));
}

/// Returns how many jobs died, and how many TTRs ended, by promotes.
async fn deaths(bench: &Bench) -> (u64, u64) {
    let counts = bench.promote().await.total();
    (counts.dead, counts.timed_out)
}

/// Puts jobs that expire, that spend their attempts, and that wait after their TTR.
async fn dying(bench: &Bench, name: &str) {
    let dying = |way: &str| {
        with(job(&format!("{name}:{way}"), way), |policy| {
            policy.ttr = SECOND;
            policy.max_attempts = if way == "spent" { 1 } else { 0 };
            policy.expires_after = (way == "expires").then_some(SECOND);
            policy.backoff = (way == "waits").then(|| backoff("list:3600000"));
        })
    };
    bench.put(dying("expires")).await.expect("put");
    bench.popped(dying("spent")).await;
    bench.popped(dying("waits")).await;
}

#[tokio::test]
async fn deaths_are_counted_once_whatever_the_clock_shows() {
    let bench = Bench::file().await;
    dying(&bench, "first").await;
    bench.advance(MINUTE);
    assert_eq!(deaths(&bench).await, (2, 2));
    let bench = bench.reopen().await;
    assert_eq!(deaths(&bench).await, (0, 0), "after a restart");
    let states = bench.states(&["first:expires", "first:spent", "first:waits"].map(id)).await;
    assert_eq!(states, [State::Dead, State::Dead, State::Delayed].map(Some));
    dying(&bench, "second").await;
    // The store is closed while these jobs die.
    let later = Clock::set_at(bench.now().after(MINUTE));
    let bench = bench.reopen_by(later).await;
    assert_eq!(deaths(&bench).await, (2, 2), "deaths while the store was closed");
    // The clock was an hour ahead. After the correction, jobs die before the time of the mark.
    let earlier = Clock::set_at(UnixMillis::new(bench.now().get() - HOUR.get()));
    let bench = bench.reopen_by(earlier).await;
    dying(&bench, "third").await;
    let later = Clock::set_at(bench.now().after(MINUTE));
    let bench = bench.reopen_by(later).await;
    assert_eq!(deaths(&bench).await, (2, 2), "deaths after the clock was set back");
}

#[tokio::test]
async fn a_death_after_the_end_of_a_ttr_is_counted_once() {
    let bench = Bench::file().await;
    bench.popped(with(job("a", "t"), |policy| policy.expires_after = Some(HOUR))).await;
    bench.advance(MINUTE);
    assert_eq!(deaths(&bench).await, (0, 1));
    bench.advance(HOUR);
    assert_eq!(deaths(&bench).await, (1, 0));
    let bench = bench.reopen().await;
    assert_eq!(bench.state(&id("a")).await, Some(State::Dead));
    assert_eq!(deaths(&bench).await, (0, 0), "after a restart");
}

#[tokio::test]
async fn deaths_that_a_limit_left_are_counted_after_a_restart() {
    let bench = Bench::file().await;
    let (bucket, ids) = bench.ids(8);
    for (n, id) in (1..).zip(&ids) {
        let expires =
            with(job(id.as_str(), "t"), |policy| policy.expires_after = Some(Millis::new(n)));
        bench.put(expires).await.expect("put");
    }
    bench.advance(SECOND);
    let first = promote_in(&*bench.store, bucket, 3).await.expect("promoted").total().dead;
    assert!((1..8).contains(&first), "{first}");
    let bench = bench.reopen().await;
    assert_eq!(deaths(&bench).await, (8 - first, 0));
}

#[tokio::test]
async fn a_purge_deletes_jobs_that_are_next_to_each_other() {
    let bench = Bench::file().await;
    let (bucket, mut ids) = bench.ids(400);
    ids.sort();
    for (n, id) in (0..).zip(&ids) {
        // Their order by due time is another one.
        let minutes = Millis::new(MINUTE.get() * (1 + n * 149 % 401));
        bench.put(delayed(id.as_str(), "t", minutes)).await.expect("put");
    }
    let mut left = 400;
    while left > 0 {
        let purge = Purge { topic: topic("t"), state: State::Delayed, limit: 20 };
        let purged = bench.call::<verb::Purge>(bucket, purge).await;
        assert!((1..=20).contains(&purged), "{purged}");
        left -= purged;
        if left < 100 {
            continue;
        }
        let states = bench.states(&ids).await;
        let gaps = states.chunk_by(|a, b| a == b).filter(|run| run[0].is_none()).count() as u64;
        // In the order of their due times, most jobs would leave gaps of their own.
        assert!(gaps <= 4 + (400 - left) / 4, "{gaps} gaps after {} jobs", 400 - left);
    }
}

#[tokio::test]
async fn thousands_of_jobs_survive_a_restart() {
    let bench = Bench::file().await;
    let names: Vec<JobId> = (0..5_000).map(|n| id(&format!("job:{n}"))).collect();
    let topic = |id: &JobId| format!("topic-{}", id.as_str().bytes().last().expect("a digit") % 3);
    for (bucket, jobs) in bench.parts(&names, |id| job(id.as_str(), &topic(id))) {
        for batch in jobs.chunks(1_000) {
            bench.call::<verb::Put>(bucket, batch.to_vec()).await;
        }
    }
    // A row with a much larger number must not distort the estimated number of jobs.
    let bench = bench.edited(|file| {
        let moved = "INSERT INTO pool SELECT (1 << 62), id, topic, created_at, due_at,
             policy, body_checksum, checksum, body
             FROM pool WHERE serial = 1";
        file.execute(moved, ()).expect("a row with a large number");
    });
    let bench = bench.await;
    let mut ready = 0;
    for topic in ["topic-0", "topic-1", "topic-2"] {
        ready += bench.ready(topic).await;
    }
    assert_eq!(ready, 5_000);
}

#[tokio::test]
async fn a_directory_has_one_open_store_at_a_time() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = || Options::new(None, Clock::set_at(START));
    let first = FileStore::open(dir.path(), options()).expect("open");
    let second = FileStore::open(dir.path(), options());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
    fs::remove_file(dir.path().join("lock")).expect("removed");
    let second = FileStore::open(dir.path(), options());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "the open database is not locked");
    first.close().await;
    FileStore::open(dir.path(), options()).expect("open again");
}

#[tokio::test]
async fn another_process_can_neither_block_nor_open_a_used_store() {
    let bench = Bench::file().await;
    let other = Connection::open(bench.database()).expect("opened");
    other.busy_timeout(Duration::ZERO).expect("set");
    other.execute_batch("BEGIN IMMEDIATE").expect_err("the file is locked");
    bench.put(job("a", "t")).await.expect("put");
    bench.store.close().await;
    other.execute_batch("BEGIN IMMEDIATE").expect("the file is free");
    let refused = FileStore::open(bench.dir(), Options::new(None, Clock::Own));
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "it was not refused at once");
}

#[tokio::test]
async fn a_damaged_job_is_quarantined_and_the_others_stay_usable() {
    let bench = Bench::file().await;
    for name in ["a", "b", "c"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let damage = "UPDATE pool SET body = x'00' WHERE id = 'a'";
    let bench = bench.edited(|file| assert_eq!(file.execute(damage, ()), Ok(1))).await;
    let popped = bench.pop_in(bench.bucket(&id("a")), vec![want("t", 3)]).await.remove(0);
    assert_eq!((popped.jobs.len(), popped.dead), (2, 1), "{popped:?}");
    let error = bench.store.get(bench.bucket(&id("a")), target(&id("a"))).await;
    assert!(matches!(error, Err(StoreError::Damaged { .. })), "{error:?}");
    bench.promote_after(MINUTE).await;
    assert_eq!(bench.pop("t", 3).await.len(), 2, "the quarantined job was delivered");
    assert_eq!(bench.damaged("t", State::Dead).await, [id("a")]);
    assert_eq!(bench.delete(&id("a")).await, Ok(State::Dead));
}

#[tokio::test]
async fn a_store_opens_with_an_unreadable_row() {
    let bench = Bench::file().await;
    bench.put(job("a", "t")).await.expect("put");
    bench.put(job("b", "t")).await.expect("put");
    let damage = "UPDATE pool SET topic = 'no topic' WHERE id = 'a'";
    let bench = bench.edited(|file| assert_eq!(file.execute(damage, ()), Ok(1))).await;
    assert_eq!(bench.pop_one("t").await.id, id("b"));
    assert_eq!(bench.get(&id("a")).await, None);
}

/// Makes each put of the job `poison` fail by a trigger.
async fn with_poison(bench: Bench) -> Bench {
    let trigger = "CREATE TRIGGER fail BEFORE INSERT ON pool WHEN NEW.id = 'poison'
         BEGIN SELECT RAISE(FAIL, 'poisoned'); END";
    bench.edited(|file| file.execute_batch(trigger).expect("created")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_is_rolled_back_and_later_batches_succeed() {
    let bench = Bench::file().await;
    bench.put(job("a", "t")).await.expect("put");
    let bench = with_poison(bench).await;
    let bucket = bench.bucket(&id("b"));
    let batch = vec![job("b", "t"), job("poison", "t"), job("c", "t")];
    let failed = bench.store.call_in::<verb::Put>(bucket, batch).await;
    assert_eq!(failed.expect_err("the batch fails").applied(), Applied::No);
    let states = bench.states(&["a", "b", "poison", "c"].map(id)).await;
    assert_eq!(states, [Some(State::Ready), None, None, None]);
    bench.put(job("b", "t")).await.expect("the next batch succeeds");
    assert_eq!(bench.pop("t", 9).await.len(), 2);
    let bench = bench.reopen().await;
    assert_eq!(bench.state(&id("b")).await, Some(State::Reserved));
    assert_eq!(bench.get(&id("c")).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_calls_are_carried_out_before_the_directory_is_free() {
    let bench = Bench::file().await;
    let mut puts = Vec::new();
    for number in 0..50 {
        let store = Arc::clone(&bench.store);
        let bucket = bench.bucket(&id("a"));
        puts.push(tokio::spawn(async move {
            store.call_in::<verb::Put>(bucket, vec![job(&format!("job:{number}"), "t")]).await
        }));
    }
    for put in puts {
        put.await.expect("joined").expect("put").remove(0).expect("placed");
    }
    bench.store.close().await;
    let late = vec![job("late", "t")];
    let error = bench.store.call_in::<verb::Put>(bench.bucket(&id("a")), late).await;
    assert!(matches!(error, Err(StoreError::Unavailable { .. })), "{error:?}");
    bench.reopen().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_shrinks_after_jobs_were_removed() {
    let bench = Bench::file().await;
    for n in 0..400 {
        let large = NewJob { body: text(100_000), ..job(&format!("{n}"), "t") };
        bench.put(large).await.expect("put");
    }
    for n in 0..400 {
        bench.delete(&id(&format!("{n}"))).await.expect("delete");
    }
    let bytes = || fs::metadata(bench.database()).expect("the file").len();
    let full = bytes();
    assert!(full > 30 << 20, "the log was not checkpointed: the file has {full} bytes");
    eventually!(bytes() <= 20 << 20, "the file still has {} bytes", bytes());
    bench.put(job("a", "t")).await.expect("puts still succeed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_put_fails_no_other_call_of_its_batch() {
    const ROUNDS: usize = 10;
    let bench = Bench::file().await;
    for n in 0..ROUNDS {
        bench.put(job(&format!("held:{n}"), "t")).await.expect("put");
    }
    let bench = with_poison(bench).await;
    let bucket = bench.bucket(&id("a"));
    for (n, popped) in bench.pop("t", 100).await.into_iter().enumerate() {
        // While the writer commits the first batch, the other calls wait and share the next one.
        let first = (0..1_000).map(|m| job(&format!("first:{n}:{m}"), "u")).collect();
        let held = held(&popped);
        let (_, put, finished) = tokio::join!(
            bench.store.call_in::<verb::Put>(bucket, first),
            bench.store.call_in::<verb::Put>(bucket, vec![job("poison", "t")]),
            bench.store.call_in::<verb::Finish>(bucket, vec![finishing(held)]),
        );
        assert_eq!(put.expect_err("the put fails").applied(), Applied::No);
        assert!(finished.expect("finish")[0].is_ok());
    }
    let bench = bench.reopen().await;
    let ids = (0..ROUNDS).map(|n| format!("held:{n}")).chain(["poison".to_owned()]);
    let ids: Vec<JobId> = ids.map(|name| id(&name)).collect();
    assert_eq!(bench.states(&ids).await, [None; ROUNDS + 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_of_large_bodies_leaves_the_rest_to_the_next() {
    let bench = Bench::file().await;
    let all: Vec<JobId> = (0..100).map(|n| id(&format!("job:{n:02}"))).collect();
    for id in &all {
        bench.put(NewJob { body: text(200_000), ..job(id.as_str(), "t") }).await.expect("put");
    }
    let mut ids = Vec::new();
    while ids.len() < 100 {
        let popped = one(bench.pop_in(bench.bucket(&id("a")), vec![want("t", 100)]).await);
        let bytes: usize = popped.jobs.iter().map(|job| job.body.len()).sum();
        assert!((1..8 << 20).contains(&bytes), "{bytes} bytes in one answer");
        ids.extend(popped.jobs.into_iter().map(|job| job.id));
        assert_eq!(popped.left, 100 - ids.len() as u64, "a wrong number of remaining jobs");
        assert_eq!(bench.ready("t").await, popped.left);
    }
    assert_eq!(ids, all);
}

#[tokio::test]
async fn counts_by_due_time_go_over_chunks_of_the_index() {
    let bench = Bench::file().await;
    let (bucket, ids) = bench.ids(600);
    for (n, id) in (0..).zip(&ids) {
        let seconds = Millis::new(1_000 * (1 + n * 149 % 601));
        let priority = Priority::new((n % 3) as u8).expect("a digit");
        let new = with(delayed(id.as_str(), "t", seconds), |policy| policy.priority = priority);
        bench.put(new).await.expect("put");
    }
    let topic: Topic = topic("t");
    let steps = Steps { from: START, step: Millis::new(100_000), count: 7 };
    let counts = bench.store.due_counts(bucket, topic.clone(), steps).await.expect("counts");
    // One of the seconds from 1 to 601 is missing: 453.
    assert_eq!(counts, [99, 100, 100, 100, 99, 100, 2]);
    bench.promote_after(Millis::new(450_000)).await;
    let at = |seconds: u64| Some(START.after(Millis::new(seconds * 1_000)));
    let due = Period { from: at(100), before: at(400) };
    let filter = JobFilter { due, ..JobFilter::default() };
    for limit in [usize::MAX, 1, 7, 128] {
        let counted = all_steps(&bench, limit, async |bucket, after, limit| {
            let (topic, filter) = (topic.clone(), filter.clone());
            let selection = Selection { topic, state: State::Ready, filter, after, limit };
            bench.store.count_matching(bucket, selection).await.expect("counted")
        });
        assert_eq!(counted.await, 300, "in steps of {limit}");
    }
}
