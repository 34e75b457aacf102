//! Properties that only the file store has: a directory, a lock, a disk.

use rusqlite::Connection;

use crate::store::prelude::*;

fn database(bench: &Bench) -> PathBuf {
    match &bench.backend {
        Backend::Dir(dir) => dir.path().join("jobs.db"),
        Backend::Redis(_) | Backend::Cluster(_) => unreachable!("this store is in a directory"),
    }
}

#[tokio::test]
async fn all_contents_survive_a_restart() {
    let bench = Bench::file().await;
    bench.put(delayed("delayed", "t", MINUTE)).await.expect("put");
    bench.put(delayed("due", "t", SECOND)).await.expect("put");
    bench.put(with(job("dead", "dead"), |policy| policy.max_attempts = 1)).await.expect("put");
    let dead = bench.popped(job("held", "held")).await;
    bench.bury(&dead.id, Some(dead.reservation)).await.expect("bury");
    let held = bench.pop_one("held").await;
    bench.promote_after(SECOND).await;
    let names = ["delayed", "due", "dead", "held"];
    let mut before = Vec::new();
    for name in names {
        before.push(bench.get(&id(name)).await);
    }
    let bench = bench.reopen().await;
    for (name, before) in names.into_iter().zip(before) {
        assert_eq!(bench.get(&id(name)).await, before, "{name}");
    }
    assert_eq!(
        bench.state(&id("due")).await,
        Some(State::Ready),
        "the store has not promoted a due job when it was opened"
    );
    assert_eq!(bench.finish(&held.id, Some(held.reservation)).await, Ok(()));
}

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
    bench
        .release(&popped.id, Some(popped.reservation), Some(Millis::ZERO))
        .await
        .expect("released");
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
    let later = Schedule::At(earlier.after(MINUTE));
    let change = Change { schedule: Some(later), ..Change::default() };
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
    let all = bench.promote().await;
    let counts = all.iter().map(Promoted::total);
    counts.fold((0, 0), |sum, counts| (sum.0 + counts.dead, sum.1 + counts.expired))
}

/// Puts jobs that expire, that spend their attempts, and that wait after their TTR.
async fn dying(bench: &Bench, name: &str) {
    let expires = with(job(&format!("{name}:expires"), "e"), |policy| {
        policy.expires_after = Some(SECOND);
    });
    bench.put(expires).await.expect("put");
    let spent = with(job(&format!("{name}:spent"), "s"), |policy| policy.max_attempts = 1);
    let waits = with(job(&format!("{name}:waits"), "w"), |policy| {
        policy.backoff = Some(backoff("list:3600000"));
    });
    for (job, topic) in [(spent, "s"), (waits, "w")] {
        bench.put(job).await.expect("put");
        assert_eq!(bench.pop_with(topic, 1, Some(SECOND)).await.len(), 1);
    }
}

#[tokio::test]
async fn deaths_are_counted_once_whatever_the_clock_shows() {
    let bench = Bench::file().await;
    dying(&bench, "first").await;
    bench.advance(MINUTE);
    assert_eq!(deaths(&bench).await, (2, 2));
    let bench = bench.reopen().await;
    assert_eq!(deaths(&bench).await, (0, 0), "after a restart");
    for (name, state) in
        [("expires", State::Dead), ("spent", State::Dead), ("waits", State::Delayed)]
    {
        assert_eq!(bench.state(&id(&format!("first:{name}"))).await, Some(state), "{name}");
    }
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
async fn deaths_that_a_limit_left_are_counted_after_a_restart() {
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("any"));
    let names = (0..).map(|n| format!("job:{n}")).filter(|name| bench.bucket(&id(name)) == bucket);
    for (n, name) in (1..).zip(names.take(8)) {
        let expires = with(job(&name, "t"), |policy| policy.expires_after = Some(Millis::new(n)));
        bench.put(expires).await.expect("put");
    }
    bench.advance(SECOND);
    let first = promote_in(&*bench.store, bucket, 3).await.expect("promoted").total().dead;
    assert!((1..8).contains(&first), "{first}");
    let bench = bench.reopen().await;
    assert_eq!(deaths(&bench).await, (8 - first, 0));
}

#[tokio::test]
async fn ends_of_retentions_do_not_delay_due_jobs() {
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("late"));
    let names = (0..).map(|n| format!("dead:{n}")).filter(|name| bench.bucket(&id(name)) == bucket);
    for name in names.take(60) {
        let dying = with(job(&name, "t"), |policy| policy.dead_retention = SECOND);
        let popped = bench.popped(dying).await;
        bench.bury(&popped.id, Some(popped.reservation)).await.expect("buried");
    }
    bench.put(delayed("late", "late", MINUTE)).await.expect("put");
    bench.advance(MINUTE);
    promote_in(&*bench.store, bucket, 20).await.expect("promoted");
    assert_eq!(bench.state(&id("late")).await, Some(State::Ready));
    bench.promote().await;
    assert_eq!(bench.store.usage().await.expect("usage").jobs, 1);
}

#[tokio::test]
async fn a_purge_deletes_jobs_that_are_next_to_each_other() {
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("any"));
    let names = (0..).map(|n| format!("job:{n}")).filter(|name| bench.bucket(&id(name)) == bucket);
    let names: Vec<String> = names.take(400).collect();
    for (n, name) in (0..).zip(&names) {
        // Their order by due time is another one.
        let minutes = Millis::new(MINUTE.get() * (1 + n * 149 % 401));
        bench.put(delayed(name, "t", minutes)).await.expect("put");
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
        let mut gaps = 0;
        let mut was_there = true;
        for name in &names {
            let is_there = bench.state(&id(name)).await.is_some();
            gaps += u64::from(was_there && !is_there);
            was_there = is_there;
        }
        // In the order of their due times, most jobs would leave gaps of their own.
        assert!(gaps <= 4 + (400 - left) / 4, "{gaps} gaps after {} jobs", 400 - left);
    }
}

#[tokio::test]
async fn thousands_of_jobs_survive_a_restart() {
    let bench = Bench::file().await;
    let mut jobs = 0;
    for bucket in bench.store.buckets().all() {
        let new = (0..5_000).map(|n| job(&format!("job:{n}"), &format!("topic-{}", n % 3)));
        let mut new: Vec<NewJob> = new.filter(|job| bench.bucket(&job.id) == bucket).collect();
        jobs += new.len();
        while !new.is_empty() {
            let batch = new.split_off(new.len().saturating_sub(1_000));
            bench.call::<verb::Put>(bucket, batch).await;
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
    assert_eq!((jobs, ready), (5_000, 5_000));
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
    let other = Connection::open(database(&bench)).expect("opened");
    other.busy_timeout(Duration::ZERO).expect("set");
    other.execute_batch("BEGIN IMMEDIATE").expect_err("the file is locked");
    bench.put(job("a", "t")).await.expect("put");
    bench.store.close().await;
    other.execute_batch("BEGIN IMMEDIATE").expect("the file is free");
    let Backend::Dir(dir) = &bench.backend else { unreachable!("this store is in a directory") };
    let options = Options::new(None, Clock::Own);
    let refused = FileStore::open(dir.path(), options);
    assert!(
        matches!(refused, Err(OpenError::InUse { .. })),
        "the second open was not refused at once"
    );
}

#[tokio::test]
async fn a_damaged_job_is_quarantined_and_the_others_stay_usable() {
    let bench = Bench::file().await;
    for name in ["a", "b", "c"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    let damage = "UPDATE pool SET body = x'00' WHERE id = 'a'";
    let bench = bench.edited(|file| assert_eq!(file.execute(damage, ()), Ok(1))).await;
    let popped: Vec<String> =
        bench.pop("t", 3).await.iter().map(|job| job.id.to_string()).collect();
    assert_eq!(popped, ["b", "c"]);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_is_rolled_back_and_later_batches_succeed() {
    let bench = Bench::file().await;
    bench.put(job("a", "t")).await.expect("put");
    // The trigger makes one row of a batch fail.
    let trigger = "CREATE TRIGGER fail BEFORE INSERT ON pool WHEN NEW.id = 'poison'
         BEGIN SELECT RAISE(FAIL, 'poisoned'); END";
    let bench = bench.edited(|file| file.execute_batch(trigger).expect("created")).await;
    let bucket = bench.bucket(&id("b"));
    let batch = vec![job("b", "t"), job("poison", "t"), job("c", "t")];
    let failed =
        bench.store.call_in::<verb::Put>(bucket, batch).await.expect_err("the batch fails");
    assert_eq!(failed.applied(), Applied::No);
    for name in ["b", "poison", "c"] {
        assert_eq!(bench.get(&id(name)).await, None, "{name}");
    }
    assert_eq!(
        bench.state(&id("a")).await,
        Some(State::Ready),
        "the failed batch has changed an older job"
    );
    bench.put(job("b", "t")).await.expect("the next batch succeeds");
    assert_eq!(bench.pop("t", 9).await.len(), 2);
    let bench = bench.reopen().await;
    assert_eq!(bench.state(&id("b")).await, Some(State::Reserved));
    assert_eq!(bench.get(&id("c")).await, None);
}

#[tokio::test]
async fn the_reserve_file_is_in_the_folder_of_the_jobs() {
    let bench = Bench::file().await;
    let ballast = database(&bench).with_file_name("ballast");
    assert_eq!(fs::metadata(ballast).expect("the reserve exists").len(), 8 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_calls_are_carried_out_before_the_directory_is_free() {
    let bench = Bench::file().await;
    let backend = bench.backend.clone();
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
    let error =
        bench.store.call_in::<verb::Put>(bench.bucket(&id("a")), vec![job("late", "t")]).await;
    assert!(matches!(error, Err(StoreError::Unavailable { .. })), "{error:?}");
    let Backend::Dir(dir) = &backend else { unreachable!("this store is in a directory") };
    let options = Options::new(None, Clock::Own);
    FileStore::open(dir.path(), options).expect("the directory is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_shrinks_after_jobs_were_removed() {
    let bench = Bench::file().await;
    let large = |n: u32| NewJob {
        body: format!("\"{}\"", "x".repeat(100_000)).into(),
        ..job(&format!("{n}"), "t")
    };
    for n in 0..400 {
        bench.put(large(n)).await.expect("put");
    }
    for n in 0..400 {
        bench.delete(&id(&format!("{n}"))).await.expect("delete");
    }
    let bytes = || fs::metadata(database(&bench)).expect("the file").len();
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
    let trigger = "CREATE TRIGGER fail BEFORE INSERT ON pool WHEN NEW.id = 'poison'
         BEGIN SELECT RAISE(FAIL, 'poisoned'); END";
    let bench = bench.edited(|file| file.execute_batch(trigger).expect("created")).await;
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
    for n in 0..ROUNDS {
        assert_eq!(bench.get(&id(&format!("held:{n}"))).await, None, "{n}");
    }
    assert_eq!(bench.get(&id("poison")).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_of_large_bodies_leaves_the_rest_to_the_next() {
    let bench = Bench::file().await;
    for n in 0..100 {
        let body = format!("\"{}\"", "x".repeat(200_000)).into();
        bench.put(NewJob { body, ..job(&format!("job:{n:02}"), "t") }).await.expect("put");
    }
    let bucket = bench.bucket(&id("a"));
    let mut ids = Vec::new();
    while ids.len() < 100 {
        let want = want("t", 100);
        let popped = bench.call::<verb::Pop>(bucket, (nonce(), vec![want])).await.remove(0);
        let bytes: usize = popped.jobs.iter().map(|job| job.body.len()).sum();
        assert!((1..8 << 20).contains(&bytes), "{bytes} bytes in one answer");
        ids.extend(popped.jobs.into_iter().map(|job| job.id.to_string()));
        assert_eq!(
            popped.left,
            100 - ids.len() as u64,
            "the pop reports a wrong number of remaining ready jobs"
        );
        assert_eq!(bench.ready("t").await, popped.left);
    }
    let all: Vec<String> = (0..100).map(|n| format!("job:{n:02}")).collect();
    assert_eq!(ids, all);
}

#[tokio::test]
async fn counts_by_due_time_go_over_chunks_of_the_index() {
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("a"));
    let names = (0..).map(|n| format!("job:{n}")).filter(|name| bench.bucket(&id(name)) == bucket);
    let names: Vec<String> = names.take(600).collect();
    for (n, name) in (0..).zip(&names) {
        let seconds = Millis::new(1_000 * (1 + n * 149 % 601));
        let priority = Priority::new((n % 3) as u8).expect("a digit");
        let new = with(delayed(name, "t", seconds), |policy| policy.priority = priority);
        bench.put(new).await.expect("put");
    }
    let topic: Topic = topic("t");
    let steps = Steps { from: START, step: Millis::new(100_000), count: 7 };
    let counts = bench.store.due_counts(bucket, topic.clone(), steps).await.expect("counts");
    // One of the seconds from 1 to 601 is missing: 453.
    assert_eq!(counts, [99, 100, 100, 100, 99, 100, 2]);
    bench.promote_after(Millis::new(450_000)).await;
    let due = Period {
        from: Some(START.after(Millis::new(100_000))),
        before: Some(START.after(Millis::new(400_000))),
    };
    let filter = JobFilter { due, ..JobFilter::default() };
    for limit in [usize::MAX, 1, 7, 128] {
        let (mut all, mut after) = (0, None);
        loop {
            let (topic, filter) = (topic.clone(), filter.clone());
            let selection = Selection { topic, state: State::Ready, filter, after, limit };
            let step = bench.store.count_matching(bucket, selection).await.expect("counted");
            assert!(step.done <= limit as u64);
            all += step.done;
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, 300, "in steps of {limit}");
    }
}
