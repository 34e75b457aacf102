//! The walk through the jobs of a Redis that was started again: it mends what half a transition has
//! left.

use crate::store::prelude::*;
use crate::store::redis_only::{command, key};

/// Returns the sets of a topic that have the job, from the one bucket of the store.
fn sets(bench: &Bench, name: &str) -> Vec<&'static str> {
    let tag = key(bench, name, "pool").replace(":pool", "");
    let has = |state: &State| {
        command(bench, &format!("ZSCORE {tag}:{}:t {name}", state.name())) != "$-1\r\n"
    };
    State::ALL.into_iter().filter(has).map(State::name).collect()
}

/// Moves a job from one set of its topic to others, without its records.
fn set_apart(bench: &Bench, name: &str, from: &str, to: &[&str]) {
    let tag = key(bench, name, "pool").replace(":pool", "");
    assert_eq!(command(bench, &format!("ZREM {tag}:{from}:t {name}")), ":1\r\n");
    for state in to {
        let at = bench.now().after(HOUR).get();
        assert_eq!(command(bench, &format!("ZADD {tag}:{state}:t {at} {name}")), ":1\r\n");
    }
}

fn walked(bench: &Bench) -> String {
    let tag = key(bench, "a", "pool").replace(":pool", "");
    command(bench, &format!("GET {tag}:walked"))
}

/// Walks until the walk through the bucket has ended in this run of Redis.
async fn walk(bench: &Bench) {
    let shared = bench.store.shared().expect("a shared store");
    let run = command(bench, "INFO server");
    let run = run.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run").to_owned();
    eventually!(
        {
            shared.walk().await;
            walked(bench).contains(&run)
        },
        "the walk does not end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_no_set_or_in_several_gets_one() {
    let bench = Bench::one_bucket_redis().await;
    for name in ["a", "twice", "dead", "over"] {
        bench.put(kept(job(name, "t"), HOUR)).await.expect("put");
    }
    let held = bench.pop("t", 4).await;
    let reservation =
        |name: &str| held.iter().find(|job| job.id == id(name)).map(|job| job.reservation);
    for name in ["never", "sound"] {
        bench.put(job(name, "t")).await.expect("put");
    }
    bench.bury(&id("dead"), reservation("dead")).await.expect("bury");
    bench.finish(&id("over"), reservation("over")).await.expect("finish");
    let later = bench.popped(job("later", "t")).await;
    bench.release(&later.id, Some(later.reservation), Some(HOUR)).await.expect("release");
    bench.put(job("waits", "t")).await.expect("put");
    set_apart(&bench, "later", "delayed", &[]);
    set_apart(&bench, "waits", "ready", &["ready", "delayed"]);
    set_apart(&bench, "a", "reserved", &[]);
    set_apart(&bench, "twice", "reserved", &["ready", "reserved"]);
    set_apart(&bench, "dead", "dead", &[]);
    set_apart(&bench, "over", "finished", &["ready"]);
    set_apart(&bench, "never", "ready", &[]);
    walk(&bench).await;
    let found = ["a", "twice", "dead", "over", "sound"].map(|name| sets(&bench, name));
    assert_eq!(found, [["ready"], ["reserved"], ["dead"], ["finished"], ["ready"]]);
    // They must not run too early.
    assert_eq!(["later", "waits"].map(|name| sets(&bench, name)), [["delayed"], ["delayed"]]);
    assert_eq!(bench.job("later").await.due_at, bench.now().after(HOUR));
    // Nothing tells when it is due. Its id is free.
    assert_eq!(sets(&bench, "never"), [""; 0]);
    assert_eq!(bench.pop_ids("t", 9).await, [id("a"), id("sound")]);
    let keeps_time = Change { body: Some("1".into()), ..Change::default() };
    assert_eq!(bench.reschedule(&id("never"), keeps_time).await, Err(Refusal::Damaged));
    let placed = bench.put(delayed("never", "t", HOUR)).await.expect("put");
    assert_eq!((placed.how, placed.state), (PutOutcome::Created, State::Delayed));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_a_key_of_another_type_stay_as_they_are() {
    let bench = Bench::one_bucket_redis().await;
    bench.popped(job("a", "t")).await;
    bench.put(job("b", "t")).await.expect("put");
    let reserved = key(&bench, "a", "pool").replace(":pool", ":reserved:t");
    command(&bench, &format!("SET {reserved} broken"));
    walk(&bench).await;
    command(&bench, &format!("DEL {reserved}"));
    assert_eq!(["a", "b"].map(|name| sets(&bench, name).len()), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_cannot_be_read_does_not_stop_the_walk() {
    let bench = Bench::redis().await;
    let tags = command(&bench, "KEYS *:incarnation");
    let tags: Vec<&str> =
        tags.lines().filter_map(|line| line.strip_suffix(":incarnation")).collect();
    assert_eq!(tags.len(), 16);
    let broken = tags.iter().find(|tag| tag.starts_with("{dq:0")).expect("the first bucket");
    command(&bench, &format!("SET {broken}:pool broken"));
    let shared = bench.store.shared().expect("a shared store");
    let walked =
        || command(&bench, "KEYS *:walked").lines().filter(|line| line.starts_with('{')).count();
    eventually!(
        {
            shared.walk().await;
            walked() == 15
        },
        "the other buckets are not walked through"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_of_redis_is_walked_through_once() {
    let bench = Bench::one_bucket_redis().await;
    // More than Redis returns at once, however few are asked for.
    let jobs = (0..600).map(|n| job(&format!("job:{n}"), "t"));
    for put in jobs.chain([job("a", "t")]) {
        bench.put(put).await.expect("put");
    }
    while !bench.pop("t", 100).await.is_empty() {}
    set_apart(&bench, "a", "reserved", &[]);
    walk(&bench).await;
    assert_eq!(sets(&bench, "a"), ["ready"]);

    set_apart(&bench, "a", "ready", &[]);
    let bench = bench.reopen().await;
    walk(&bench).await;
    for _ in 0..20 {
        bench.store.shared().expect("a shared store").walk().await;
    }
    assert_eq!(sets(&bench, "a"), [""; 0], "it was walked through again");

    let tag = key(&bench, "a", "pool").replace(":pool", "");
    command(&bench, &format!("SET {tag}:walked another"));
    let bench = bench.reopen().await;
    walk(&bench).await;
    assert_eq!(sets(&bench, "a"), ["ready"]);
}
