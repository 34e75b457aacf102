//! Properties that only the file store has: a directory, a lock, a disk.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use delay_queue::{
    job::{NewJob, State, Topics, UnixMillis},
    store::{
        Applied, Clock, JobRef, OpenError, Options, PopRequest, Steps, Store, StoreError,
        file::FileStore,
    },
};
use futures::future::join_all;
use rusqlite::Connection;

use crate::store::bench::{
    Backend, Bench, HOUR, MINUTE, SECOND, START, delayed, finishing, id, job, nonce, target, verb,
    with,
};

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
    bench.put(job("held", "held")).await.expect("put");
    let dead = bench.pop_one("dead").await;
    bench.bury(&dead.id, Some(dead.reservation)).await.expect("bury");
    let held = bench.pop_one("held").await;
    bench.advance(SECOND);
    bench.promote().await;
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
    bench.put(with(job("held", "t"), |policy| policy.ttr = SECOND)).await.expect("put");
    bench.pop_one("t").await;
    let earlier = UnixMillis::new(START.get() - MINUTE.get());
    let bench = bench.reopen_by(Clock::set_at(earlier)).await;
    let held = bench.get(&id("held")).await.expect("the job");
    assert_eq!(held.reserved_until, Some(earlier.after(SECOND)));
    bench.advance(SECOND);
    bench.promote().await;
    assert_eq!(bench.state(&id("held")).await, Some(State::Ready));
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
            bench.store.call_in::<verb::Put>(bucket, batch).await.expect("put");
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
    bench.advance(MINUTE);
    bench.promote().await;
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
        let held = JobRef {
            id: popped.id.clone(),
            reservation: Some(popped.reservation),
            topics: Topics::ALL,
        };
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
        let want = PopRequest {
            topic: "t".parse().expect("a topic"),
            count: 100,
            ttr: None,
            consumer: None,
        };
        let popped = bench
            .store
            .call_in::<verb::Pop>(bucket, (nonce(), vec![want]))
            .await
            .expect("pop")
            .remove(0);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_put_waits_for_part_of_one_count_of_delayed_jobs() {
    const JOBS: u64 = 60_000;
    let bench = Bench::file().await;
    let bucket = bench.bucket(&id("a"));
    for part in 0..JOBS / 1000 {
        let jobs = (0..1000).map(|n| delayed(&format!("job:{part}:{n}"), "t", HOUR)).collect();
        assert!(
            bench
                .store
                .call_in::<verb::Put>(bucket, jobs)
                .await
                .expect("put")
                .iter()
                .all(Result::is_ok)
        );
    }
    let steps = Steps { from: START, step: HOUR, count: 3 };
    let count = || bench.store.due_counts(bucket, "t".parse().expect("a topic"), steps);
    let mut number = 0;
    let mut put = async || {
        number += 1;
        let begun = Instant::now();
        let put = bench
            .store
            .call_in::<verb::Put>(bucket, vec![job(&format!("put:{number}"), "u")])
            .await;
        assert!(put.expect("put")[0].is_ok());
        begun.elapsed()
    };
    let mut alone = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        assert_eq!(count().await.expect("counts"), [0, JOBS, 0]);
        alone.push(begun.elapsed() + put().await);
    }
    let counts = join_all((0..300).map(|_| count()));
    let puts = async {
        let mut took = Vec::new();
        for _ in 0..9 {
            took.push(put().await);
        }
        took
    };
    let (counts, mut took) = tokio::join!(counts, puts);
    assert!(counts.into_iter().all(|counts| counts.expect("counts") == [0, JOBS, 0]));
    alone.sort();
    took.sort();
    println!("a count and a put alone: {:?}; a put among counts: {:?}", alone[4], took[4]);
    // Each of the 300 counts has three parts.
    assert!(took[4] < alone[4] * 10, "a put takes {:?} among counts, not {:?}", took[4], alone[4]);
}
