//! Expiry of jobs: pops, releases and ended TTRs just before and at that millisecond.

use crate::store::prelude::*;

const TOPIC: &str = "t";
const MILLISECOND: Millis = Millis::new(1);

fn expiring(name: &str, after: Millis) -> NewJob {
    with(job(name, TOPIC), |policy| policy.expires_after = Some(after))
}

async fn state_of(bench: &Bench, id: &JobId) -> (State, Option<String>) {
    let job = bench.job(id.as_str()).await;
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
    let job = bench.job(other.as_str()).await;
    assert_eq!((job.attempt, job.died_at), (0, job.policy.expires_at));
}

pub async fn a_promote_ends_a_job_at_the_millisecond_at_which_it_expires(bench: Bench) {
    bench.put(expiring("a", MINUTE)).await.expect("put");
    bench.promote_after(Millis::new(59_999)).await;
    assert_eq!(state_of(&bench, &id("a")).await.0, State::Ready);
    bench.advance(MILLISECOND);
    let died = bench.promote().await.total().dead;
    assert_eq!((died, state_of(&bench, &id("a")).await), (1, expired()));
}

pub async fn a_job_whose_next_attempt_would_be_too_late_is_dead(bench: Bench) {
    // The jobs expire an hour after the put. They are released after a second, or their TTR ends
    // after a minute.
    for is_uncounted in [false, true] {
        bench.put(expiring("a", HOUR)).await.expect("put");
        for (delay, dies) in [(3_599_000, true), (3_598_999, false)] {
            let held = held(&bench.pop_one(TOPIC).await);
            bench.advance(SECOND);
            let (delay, error) = (Some(Millis::new(delay)), Some("busy".to_owned()));
            let release = Release { delay, error, is_uncounted, ..Release::new(held) };
            let moved = bench.release_by(release).await.expect("released");
            let state = if dies { State::Dead } else { State::Delayed };
            assert_eq!((moved.died, moved.state), (dies, state), "{moved:?}");
            if dies {
                assert_eq!(state_of(&bench, &id("a")).await, expired());
                bench.kick(&id("a")).await.expect("kicked");
            }
        }
        bench.delete(&id("a")).await.expect("deleted");
    }
    for (wait, state) in [(3_539_999, State::Delayed), (3_540_000, State::Dead)] {
        let backoff = Some(backoff(&format!("list:{wait}")));
        let held = with(expiring("held", HOUR), |policy| policy.backoff = backoff);
        bench.popped(held).await;
        bench.promote_after(MINUTE).await;
        assert_eq!(state_of(&bench, &id("held")).await.0, state, "{wait}");
        bench.delete(&id("held")).await.expect("deleted");
    }
}

pub async fn a_pop_finds_a_job_behind_many_that_have_expired(bench: Bench) {
    let (bucket, ids) = bench.ids(651);
    let [expiries @ .., live] = &ids[..] else { unreachable!("651 ids") };
    let urgent =
        |id: &JobId| with(expiring(id.as_str(), SECOND), |policy| policy.priority = Priority::MAX);
    for part in expiries.chunks(250) {
        bench.call::<verb::Put>(bucket, part.iter().map(urgent).collect()).await;
    }
    bench.put(job(live.as_str(), TOPIC)).await.expect("put");
    bench.advance(SECOND);
    // Each pop ends only a bounded number of expired jobs, so several pops may be needed.
    let (mut calls, mut dead) = (0, 0);
    let popped = loop {
        calls += 1;
        let popped = bench.pop_in(bucket, vec![want(TOPIC, 1)]).await.remove(0);
        dead += popped.dead;
        if !popped.jobs.is_empty() {
            break popped.jobs;
        }
        assert!(calls < 10, "ten pops have not found the job behind the expired ones");
    };
    assert!((4..=8).contains(&calls), "{calls} calls");
    assert_eq!((popped.len(), &popped[0].id), (1, live));
    assert_eq!(dead, 650, "pops have not counted the jobs that they ended");
    assert_eq!(bench.promote().await.total().dead, 0, "a promote has counted them again");
    for id in expiries {
        assert_eq!(state_of(&bench, id).await, expired());
    }
    assert!(bench.pop(TOPIC, 100).await.is_empty());
}
