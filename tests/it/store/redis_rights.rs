//! Calls for which the Redis user lacks a right. If the answer says that the call was not applied,
//! nothing may be changed, even if the call has several jobs and a script needs the right after
//! other commands.

use std::fmt::Debug;

use crate::store::prelude::*;
use crate::store::redis_only::ConnectedBench;

/// Reading commands that scripts use.
const READS: [&str; 8] =
    ["exists", "hexists", "hget", "hmget", "time", "zcard", "zrange", "zscore"];
/// Writing commands that scripts use.
const WRITES: [&str; 5] = ["hdel", "hset", "zadd", "zrem", "zremrangebyrank"];

/// Commands that the user lacks at the same time.
type Denied = Vec<&'static str>;

fn each_command() -> Vec<Denied> {
    READS.iter().chain(&WRITES).map(|&command| vec![command]).collect()
}

fn each_pair_of_writes() -> Vec<Denied> {
    let after = |n: usize| WRITES[n + 1..].iter();
    (0..WRITES.len()).flat_map(|n| after(n).map(move |&other| vec![WRITES[n], other])).collect()
}

/// Returns every key with a hash of its contents, without the deadlines of buckets, which may be
/// too early.
fn contents(redis: &mut ConnectedBench) -> Vec<String> {
    let mut all = redis.contents();
    all.retain(|line| !line.contains(":bucket ") && !line.contains(":ends "));
    all
}

/// Makes the call on a new store for each denial. Returns the errors, each with its denied
/// commands.
async fn deny<P, O: Debug>(
    denials: Vec<Denied>,
    name: &str,
    prepare: impl AsyncFn(&Bench) -> P,
    call: impl AsyncFn(&Bench, P) -> StoreResult<O>,
) -> Vec<(Denied, StoreError)> {
    let mut redis = ConnectedBench::new().await;
    let mut errors = Vec::new();
    for denied in denials {
        let bench = redis.bench.fresh().await;
        let prepared = prepare(&bench).await;
        let before = contents(&mut redis);
        redis.set_rights(&denied.iter().map(|command| format!("-{command}")).collect::<Vec<_>>());
        let answer = call(&bench, prepared).await;
        redis.set_rights(&denied.iter().map(|command| format!("+{command}")).collect::<Vec<_>>());
        let claims_no_change = matches!(&answer, Err(error) if error.applied() == Applied::No);
        if claims_no_change {
            assert_eq!(contents(&mut redis), before, "{name} without {denied:?}: {answer:?}");
        }
        if denied.len() == 1 {
            assert_eq!(redis.problems("*"), [""; 0], "{name} without {denied:?}");
        }
        errors.extend(answer.err().map(|error| (denied, error)));
    }
    assert!(errors.len() > 4, "{name} was refused with too few denials: {errors:?}");
    errors
}

/// Denies rights to a put of several jobs. One of them, `other`, may conflict with an existing job.
async fn deny_put(denials: Vec<Denied>, other: NewJob) -> Vec<(Denied, StoreError)> {
    let prepare = async |bench: &Bench| {
        bench.put(job("living", "t")).await.expect("put");
    };
    let call = async |bench: &Bench, ()| {
        let second = NewJob { body: long('a'), ..delayed("second", "u", HOUR) };
        let batch = vec![job("first", "t"), second, other.clone(), job("last", "t")];
        bench.store.call_in::<verb::Put>(bench.bucket(&id("living")), batch).await
    };
    deny(denials, &format!("a put together with {other:?}"), prepare, call).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_put_has_put_no_job() {
    for on_conflict in [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace] {
        // The id belongs to an existing job of the same or another topic, or to a job of the same
        // call.
        for (name, topic) in [("living", "t"), ("living", "u"), ("first", "t")] {
            let other = NewJob { on_conflict, ..job(name, topic) };
            for (denied, error) in deny_put(each_command(), other.clone()).await {
                // A replacement is a second call, whose rights the first one does not check.
                let is_certain = on_conflict != OnConflict::Replace;
                let is_no = error.applied() == Applied::No;
                assert!(is_no || !is_certain, "{other:?} without {denied:?}: {error}");
            }
        }
    }
    deny_put(each_pair_of_writes(), job("new", "t")).await;
    deny_put(each_pair_of_writes(), job("living", "t")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_pop_has_reserved_no_job() {
    // An expired job of the first topic needs rights that otherwise only the second one needs.
    for (consumer, has_expired) in [(None, true), (Some("worker"), true), (None, false)] {
        let consumer = consumer.map(|name: &str| name.parse().expect("a name"));
        let want = |topic| PopRequest { consumer: consumer.clone(), ..want(topic, 5) };
        let prepare = async |bench: &Bench| {
            for put in [job("short", "t"), NewJob { body: long('a'), ..job("long", "u") }] {
                bench.put(put).await.expect("put");
            }
            bench.put(kept(job("popped", "t"), HOUR)).await.expect("put");
            let expires = with(job("expires", "t"), |policy| {
                policy.expires_after = Some(SECOND);
                policy.dead_to = Some(topic("dead"));
            });
            bench.put(expires).await.expect("put");
            bench.advance(if has_expired { SECOND } else { Millis::ZERO });
        };
        let call = async |bench: &Bench, ()| {
            let wants = (nonce(), vec![want("t"), want("u")]);
            bench.store.call_in::<verb::Pop>(bench.bucket(&id("short")), wants).await
        };
        let denials = [each_command(), each_pair_of_writes()].concat();
        deny(denials, &format!("a pop by {consumer:?}"), prepare, call).await;
    }
}

/// Puts and pops two jobs, one of them with a retention.
async fn reserved(bench: &Bench) -> Vec<JobRef> {
    reserved_with(bench, |_| ()).await
}

/// The same in their last attempt, after which they move to another topic.
async fn reserved_at_last(bench: &Bench) -> Vec<JobRef> {
    reserved_with(bench, |policy| {
        (policy.max_attempts, policy.dead_to) = (1, Some(topic("dead")));
    })
    .await
}

async fn reserved_with(bench: &Bench, set: fn(&mut Policy)) -> Vec<JobRef> {
    bench.put(with(job("one", "t"), set)).await.expect("put");
    let two = kept(NewJob { body: long('a'), ..job("two", "t") }, HOUR);
    bench.put(with(two, set)).await.expect("put");
    let popped = bench.pop("t", 2).await;
    let [one, two] = &popped[..] else { unreachable!("two jobs") };
    let (one, two) = (held(one), held(two));
    // The first job is in the batch twice: the second time, the call has already changed it.
    vec![one.clone(), two, one]
}

/// Puts two jobs. Returns the ids of both, and then the id of the first again.
async fn waiting(bench: &Bench) -> Vec<JobId> {
    bench.put(delayed("one", "t", HOUR)).await.expect("put");
    bench.put(NewJob { body: long('a'), ..delayed("two", "u", HOUR) }).await.expect("put");
    ["one", "two", "one"].map(id).to_vec()
}

/// A delayed job, and dead ones that expire again after a kick.
async fn kickable(bench: &Bench) -> Vec<JobId> {
    let held = reserved_with(bench, |policy| policy.expires_after = Some(HOUR)).await;
    for job in &held[..2] {
        bench.bury(&job.id, job.reservation).await.expect("buried");
    }
    bench.put(delayed("three", "u", HOUR)).await.expect("put");
    held.into_iter().map(|job| job.id).chain([id("three")]).collect()
}

/// Defines a test of one transition of a batch of jobs.
macro_rules! deny_batch {
    ($verb:ident, $prepare:ident, $part:expr) => {
        deny(each_command(), stringify!($verb), $prepare, async |bench, jobs| {
            let jobs = jobs.into_iter().map($part).collect();
            bench.store.call_in::<verb::$verb>(bench.bucket(&id("one")), jobs).await
        })
        .await
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_has_changed_no_job() {
    deny_batch!(Finish, reserved, finishing);
    let error = || Some("an error".to_owned());
    let delay = Some(MINUTE);
    deny_batch!(Release, reserved, |held| Release { delay, error: error(), ..Release::new(held) });
    deny_batch!(Touch, reserved, |held| Touch { held, ttr: Some(HOUR) });
    deny_batch!(Bury, reserved, |held| Bury { held, error: error() });
    deny_batch!(Release, reserved_at_last, |held| Release { error: error(), ..Release::new(held) });
    deny_batch!(Bury, reserved_at_last, |held| Bury { held, error: error() });
    deny_batch!(Unpop, reserved, |held| held);
    deny_batch!(Kick, kickable, |id| target(&id));
    deny_batch!(Delete, waiting, |id| deletion(&id));
    let schedule = Some(Schedule::In(Millis::new(5_000)));
    let change = || Change { schedule, body: Some(long('b')), ..Change::default() };
    deny_batch!(Reschedule, waiting, |id| (target(&id), change()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_import_has_restored_no_job() {
    let deleted = async |bench: &Bench| -> Vec<Job> {
        let mut jobs = Vec::new();
        for id in waiting(bench).await.into_iter().take(2) {
            jobs.push(bench.get(&id).await.expect("the job exists"));
            bench.delete(&id).await.expect("deleted");
        }
        jobs
    };
    deny_batch!(Restore, deleted, |job| job);
}
