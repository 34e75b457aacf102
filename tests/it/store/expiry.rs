//! Expiry of jobs: pops, releases and expired TTRs just before and at that millisecond.

use delay_queue::{
    job::{Backoff, Bucket, JobId, Millis, NewJob, Priority, State},
    store::{JobRef, PopRequest, Release},
};

use super::bench::{Bench, HOUR, MINUTE, SECOND, id, job, nonce, verb, with};

const TOPIC: &str = "t";
const MILLISECOND: Millis = Millis::new(1);

fn expiring(name: &str, after: Millis) -> NewJob {
    with(job(name, TOPIC), |policy| policy.expires_after = Some(after))
}

async fn state_of(bench: &Bench, id: &JobId) -> (State, Option<String>) {
    let job = bench.get(id).await.expect("a job");
    (job.state, job.error)
}

fn expired() -> (State, Option<String>) {
    (State::Dead, Some("expired".to_owned()))
}

pub async fn a_pop_gets_a_job_until_the_millisecond_at_which_it_expires(bench: Bench) {
    bench.put(expiring("early", MINUTE)).await.expect("put");
    bench.put(expiring("late", MINUTE)).await.expect("put");
    bench.advance(Millis::new(59_999));
    let first = bench.pop_one(TOPIC).await.id;
    bench.advance(MILLISECOND);
    assert!(bench.pop(TOPIC, 1).await.is_empty());
    let other = id(if first.as_str() == "early" { "late" } else { "early" });
    assert_eq!(state_of(&bench, &other).await, expired());
    assert_eq!(state_of(&bench, &first).await.0, State::Reserved);
    let job = bench.get(&other).await.expect("a job");
    assert_eq!((job.attempt, job.died_at), (0, job.policy.expires_at));
}

#[tokio::test]
async fn a_pop_reports_the_jobs_that_it_found_dead() {
    let bench = Bench::file().await;
    bench.put(expiring("a", MINUTE)).await.expect("put");
    bench.put(expiring("b", MINUTE)).await.expect("put");
    bench.advance(MINUTE);
    let want =
        PopRequest { topic: TOPIC.parse().expect("a topic"), count: 2, ttr: None, consumer: None };
    let mut dead = 0;
    for bucket in bench.store.buckets().all() {
        let call = bench.store.call_in::<verb::Pop>(bucket, (nonce(), vec![want.clone()])).await;
        dead += call.expect("pop")[0].dead;
    }
    assert_eq!(dead, 2);
    let died: u64 = bench.promote().await.iter().map(|one| one.total().dead).sum();
    assert_eq!(died, 0);
}

pub async fn a_promote_ends_a_job_at_the_millisecond_at_which_it_expires(bench: Bench) {
    bench.put(expiring("a", MINUTE)).await.expect("put");
    bench.advance(Millis::new(59_999));
    bench.promote().await;
    assert_eq!(state_of(&bench, &id("a")).await.0, State::Ready);
    bench.advance(MILLISECOND);
    let died: u64 = bench.promote().await.iter().map(|one| one.total().dead).sum();
    assert_eq!((died, state_of(&bench, &id("a")).await), (1, expired()));
}

pub async fn a_job_whose_next_attempt_would_be_too_late_is_dead(bench: Bench) {
    // The jobs expire an hour after the put. They are released after a second, or their TTR ends
    // after a minute.
    for (name, delay, counts) in [("a", 3_599_000, true), ("b", 3_599_000, false)] {
        bench.put(expiring(name, HOUR)).await.expect("put");
        let popped = bench.pop_one(TOPIC).await;
        bench.advance(SECOND);
        let held = JobRef {
            id: popped.id.clone(),
            reservation: Some(popped.reservation),
            topics: delay_queue::job::Topics::ALL,
        };
        let release = |delay| Release {
            delay: Some(Millis::new(delay)),
            error: Some("busy".to_owned()),
            is_uncounted: !counts,
            ..Release::of(held.clone())
        };
        let moved = bench.release_by(release(delay)).await.expect("released");
        assert!(moved.died && moved.state == State::Dead, "{moved:?}");
        assert_eq!(state_of(&bench, &id(name)).await, expired());

        bench.kick(&id(name)).await.expect("kicked");
        let popped = bench.pop_one(TOPIC).await;
        bench.advance(SECOND);
        let held = JobRef { reservation: Some(popped.reservation), ..held.clone() };
        let in_time = Release { held, ..release(delay - 1) };
        let moved = bench.release_by(in_time).await.expect("released");
        assert!(!moved.died && moved.state == State::Delayed, "{moved:?}");
        bench.delete(&id(name)).await.expect("deleted");
    }
    for (wait, state) in [(3_539_999, State::Delayed), (3_540_000, State::Dead)] {
        let backoff: Backoff = format!("list:{wait}").parse().expect("a backoff");
        let held = with(expiring("held", HOUR), |policy| policy.backoff = Some(backoff));
        bench.put(held).await.expect("put");
        bench.pop_one(TOPIC).await;
        bench.advance(MINUTE);
        bench.promote().await;
        assert_eq!(state_of(&bench, &id("held")).await.0, state, "{wait}");
        bench.delete(&id("held")).await.expect("deleted");
    }
}

pub async fn a_pop_finds_a_job_behind_many_that_have_expired(bench: Bench) {
    const EXPIRED: usize = 650;
    let first = |name: &String| bench.bucket(&id(name)) == Bucket::FIRST;
    let names: Vec<String> = (0..).map(|n| format!("{n}")).filter(first).take(EXPIRED).collect();
    let urgent =
        |name: &String| with(expiring(name, SECOND), |policy| policy.priority = Priority::MAX);
    for part in names.chunks(250) {
        let jobs = part.iter().map(urgent).collect();
        bench.call::<verb::Put>(Bucket::FIRST, jobs).await;
    }
    let live = (0..).map(|n| format!("live-{n}")).find(first).expect("one");
    bench.put(job(&live, TOPIC)).await.expect("put");
    bench.advance(SECOND);
    // Each pop ends only a bounded number of expired jobs, so several pops may be needed.
    let mut calls = 0;
    let popped = loop {
        calls += 1;
        let popped = bench.pop(TOPIC, 1).await;
        if !popped.is_empty() {
            break popped;
        }
        assert!(calls < 10, "ten pops have not found the job behind the expired ones");
    };
    assert!((4..=8).contains(&calls), "{calls} calls");
    assert_eq!((popped.len(), popped[0].id.as_str()), (1, live.as_str()));
    for name in &names {
        assert_eq!(state_of(&bench, &id(name)).await, expired());
    }
    assert!(bench.pop(TOPIC, 100).await.is_empty());
}
