//! Finished jobs on a Redis that is full, damaged, or repaired by the doctor.

use delay_queue::store::Location as _;

use crate::store::prelude::*;
use crate::store::redis_only::key;

async fn outcome(bench: &Bench, name: &str) -> Option<(Outcome, bool)> {
    let job = bench.get(&id(name)).await?;
    assert_eq!(job.state, State::Finished);
    job.ending.map(|ending| (ending.outcome, ending.result.is_some()))
}

#[tokio::test]
async fn a_full_redis_drops_a_result_and_finishes_the_job() {
    let bench = Bench::one_bucket_redis().await;
    let mut held = Vec::new();
    for name in ["short", "long", "none", "other", "late"] {
        held.push(Some(bench.popped(kept(job(name, "t"), HOUR)).await.reservation));
    }
    bench.finish_with(&id("short"), held[0], Some("1".into())).await.expect("finished");
    command(&bench, "CONFIG SET maxmemory 1");
    // The first result is kept.
    bench.finish_with(&id("short"), held[0], Some("2".into())).await.expect("finished");
    bench.finish_with(&id("long"), held[1], Some(text(60_000))).await.expect("finished");
    bench.finish(&id("none"), held[2]).await.expect("finished");
    let finishes = [("other", held[3]), ("late", held[4])]
        .map(|(name, hold)| Finish { held: job_ref(&id(name), hold), result: Some("3".into()) });
    let replies = bench.call::<verb::Finish>(bench.bucket(&id("a")), finishes.to_vec()).await;
    assert!(replies.iter().all(Result::is_ok));
    command(&bench, "CONFIG SET maxmemory 0");

    assert_eq!(outcome(&bench, "short").await, Some((Outcome::Finished, true)));
    assert_eq!(outcome(&bench, "none").await, Some((Outcome::Finished, false)));
    for name in ["long", "other", "late"] {
        assert_eq!(outcome(&bench, name).await, Some((Outcome::ResultDropped, false)), "{name}");
    }
    // The client repeats the finish because the answer was lost. Redis has room again.
    bench.finish_with(&id("long"), held[1], Some("4".into())).await.expect("finished");
    assert_eq!(outcome(&bench, "long").await, Some((Outcome::ResultDropped, false)));
    bench.promote_after(HOUR).await;
    assert_eq!(bench.records().await, 0);
}

/// Redis checks its memory only before the first write of a script, so a call checks it once for
/// all its buckets.
#[tokio::test]
async fn a_full_redis_drops_the_results_of_later_buckets_too() {
    let bench = Bench::redis().await;
    let mut holds = BTreeMap::new();
    for n in 0..12 {
        let popped = bench.popped(kept(job(&format!("job-{n}"), "t"), HOUR)).await;
        holds.insert(popped.id, popped.reservation);
    }
    let mut parts = bench.parts(holds.keys(), |id| {
        let held = job_ref(id, Some(holds[id]));
        Finish { held, result: Some("1".into()) }
    });
    parts[0].1.iter_mut().for_each(|job| job.result = None);
    let later = parts[1..].iter().flat_map(|(_, jobs)| jobs);
    let with_result: Vec<JobId> = later.map(|job| job.held.id.clone()).collect();
    assert!(!with_result.is_empty());
    command(&bench, "CONFIG SET maxmemory 1");
    for outcome in bench.store.finish(parts).await {
        assert!(outcome.expect("finished").iter().all(Result::is_ok));
    }
    command(&bench, "CONFIG SET maxmemory 0");
    for id in with_result {
        let found = outcome(&bench, id.as_str()).await;
        assert_eq!(found, Some((Outcome::ResultDropped, false)), "{id}");
    }
}

#[tokio::test]
async fn a_full_redis_remembers_and_forgets_ids() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(NewJob { body: text(60_000), ..job("a", "t") }).await.expect("put");
    bench.finished(kept(job("b", "u"), MINUTE), Some("1".into())).await;
    command(&bench, "CONFIG SET maxmemory 1");
    assert_eq!(bench.delete_remembered(&id("a"), HOUR).await, Ok(State::Ready));
    bench.promote_after(MINUTE).await;
    assert_eq!(bench.get(&id("b")).await, None);
    command(&bench, "CONFIG SET maxmemory 0");
    assert_eq!(outcome(&bench, "a").await, Some((Outcome::Deleted, false)));
}

#[tokio::test]
async fn a_damaged_finished_job_is_shown_as_damaged_and_deleted() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["a", "b", "c"] {
        let first = bench.popped(kept(job(name, "t"), HOUR)).await;
        bench.release(&first.id, None, Some(Millis::ZERO)).await.expect("released");
        let second = bench.pop_one("t").await;
        bench.finish_with(&second.id, None, Some(text(5_000))).await.expect("finished");
    }
    let pool = key(&bench, "a", "pool");
    assert_eq!(command(&bench, &format!("HSET {pool} a nonsense")), ":0\r\n");
    let bodies = pool.replace(":pool", ":bodies");
    assert_eq!(command(&bench, &format!("HSET {bodies} b other")), ":0\r\n");
    let mut damaged = bench.damaged("t", State::Finished).await;
    damaged.sort();
    assert_eq!(damaged, [id("a"), id("b")]);
    assert_eq!(outcome(&bench, "c").await, Some((Outcome::Finished, true)));
    for name in ["a", "b"] {
        assert!(matches!(bench.put(job(name, "t")).await, Err(Refusal::Exists(_))), "{name}");
        assert_eq!(bench.delete(&id(name)).await, Ok(State::Finished), "{name}");
        bench.put(job(name, "u")).await.expect("the id is free");
    }
    assert_eq!(bench.pop("u", 9).await.len(), 2);
    assert!(bench.pop("t", 9).await.is_empty());
    let histories = pool.replace(":pool", ":history");
    assert_eq!(command(&bench, &format!("HKEYS {histories}")), "*1\r\n$1\r\nc\r\n");
}

/// Runs the doctor's repair on the store of a bench. Returns its report.
async fn repaired(bench: &Bench) -> String {
    let doctor = redis_options(&bench.redis_server().url(), &bench.layout.prefix);
    let report = doctor.examine(Options::new(None, bench.clock.clone()), true, deadline_of).await;
    let report = report.expect("examined");
    assert_eq!(report.problems, Vec::<String>::new(), "{}", report.text);
    report.text
}

#[tokio::test]
async fn the_doctor_repairs_a_finished_job_without_making_it_ready() {
    let bench = Bench::one_bucket_redis().await;
    let names: Vec<JobId> = ["lost", "twice"].map(id).to_vec();
    for name in &names {
        bench.finished(kept(job(name.as_str(), "t"), HOUR), Some(text(5_000))).await;
    }
    let before = bench.get(&id("twice")).await;
    let set = |state: &str| key(&bench, "lost", "pool").replace(":pool", &format!(":{state}:t"));
    let damage =
        [format!("ZREM {} lost", set("finished")), format!("ZADD {} 1 twice", set("ready"))];
    for line in damage {
        assert_eq!(command(&bench, &line), ":1\r\n", "{line}");
    }
    let said = repaired(&bench).await;
    assert!(said.contains("repaired"), "{said}");
    assert_eq!(bench.get(&id("twice")).await, before);
    for name in &names {
        assert_eq!(outcome(&bench, name.as_str()).await, Some((Outcome::Finished, true)), "{name}");
    }
    bench.promote_after(MINUTE).await;
    assert!(bench.pop("t", 9).await.is_empty());
    bench.promote_after(HOUR).await;
    assert_eq!(bench.records().await, 0, "the repaired job was not removed after a new retention");
}

#[tokio::test]
async fn a_finished_record_in_another_set_is_never_delivered() {
    for state in ["ready", "delayed", "reserved", "dead"] {
        let bench = Bench::one_bucket_redis().await;
        bench.finished(kept(job("a", "t"), HOUR), Some("1".into())).await;
        let now = bench.now().get();
        let finished = key(&bench, "a", "pool").replace(":pool", ":finished:t");
        let other = finished.replace(":finished:", &format!(":{state}:"));
        let bucket =
            finished.replace(":finished:t", if state == "delayed" { ":bucket" } else { ":ends" });
        assert_eq!(command(&bench, &format!("ZREM {finished} a")), ":1\r\n");
        assert_eq!(command(&bench, &format!("ZADD {other} {now} a")), ":1\r\n");
        command(&bench, &format!("ZADD {bucket} {now} {state}:t"));
        for _ in 0..3 {
            bench.promote_after(MINUTE).await;
            assert!(bench.pop("t", 9).await.is_empty(), "{state}");
        }
        if state != "dead" {
            bench.delete(&id("a")).await.expect("deleted");
        }
        assert_eq!(bench.popped(job("a", "u")).await.attempt, 1, "the id is free");
    }
}

#[tokio::test]
async fn the_only_attempt_of_a_finished_job_is_in_its_record() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(job("first", "t")).await.expect("put");
    let histories = key(&bench, "first", "pool").replace(":pool", ":history");
    bench.delete(&id("first")).await.expect("deleted");
    let consumers = [("plain", None), ("named", Some("w/1")), ("touched", None), ("late", None)];
    for (name, consumer) in consumers {
        let began = bench.now();
        bench.put(kept(job(name, "t"), HOUR)).await.expect("put");
        let popped = bench.pop_as("t", 1, None, consumer).await.remove(0);
        let hold = Some(popped.reservation);
        bench.advance(SECOND);
        if name == "touched" {
            bench.touch(&popped.id, hold, Some(HOUR)).await.expect("touched");
        }
        if name == "late" {
            bench.promote_after(HOUR).await;
        }
        bench.finish(&popped.id, hold).await.expect("finished");
        let found = bench.job(name).await;
        let [past] = &found.history[..] else { panic!("{found:?}") };
        assert_eq!((past.attempt, past.started_at, past.ended_at), (1, began, bench.now()));
        assert_eq!(past.consumer.as_ref().map(|name| name.as_str()), consumer);
        assert_eq!(command(&bench, &format!("EXISTS {histories}")), ":0\r\n", "{name}");
        // The remembered job has the times of the delete.
        bench.advance(SECOND);
        bench.delete_remembered(&popped.id, HOUR).await.expect("remembered");
        assert_eq!(bench.job(name).await.history, found.history, "{name}");
        bench.delete(&popped.id).await.expect("deleted");
        assert_eq!(bench.records().await, 0);
    }
}

#[tokio::test]
async fn a_failed_batch_of_finishes_changes_no_job() {
    let bench = Bench::one_bucket_redis().await;
    let popped = [bench.popped(kept(job("a", "t"), HOUR)).await, bench.popped(job("b", "u")).await];
    let held = popped.map(|popped| held(&popped));
    let reserved = key(&bench, "b", "pool").replace(":pool", ":reserved:u");
    assert_eq!(command(&bench, &format!("RENAME {reserved} elsewhere")), "+OK\r\n");
    assert_eq!(command(&bench, &format!("SET {reserved} text")), "+OK\r\n");
    let finish = || held.iter().cloned().map(finishing).collect();
    let bucket = bench.bucket(&id("a"));
    let failed = bench.store.call_in::<verb::Finish>(bucket, finish()).await;
    failed.expect_err("a key has another type");
    command(&bench, &format!("DEL {reserved}"));
    assert_eq!(command(&bench, &format!("RENAME elsewhere {reserved}")), "+OK\r\n");
    assert_eq!(bench.state(&id("a")).await, Some(State::Reserved), "changed by a failed batch");
    assert!(bench.call::<verb::Finish>(bucket, finish()).await.iter().all(Result::is_ok));
    assert_eq!((bench.state(&id("a")).await, bench.records().await), (Some(State::Finished), 1));
}
