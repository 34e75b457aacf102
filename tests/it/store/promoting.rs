//! Promotes while more jobs are due than their limit.

use crate::store::prelude::*;

/// Creates a store on Redis in which `jobs` TTRs of the topic `mass` have ended in each bucket, and
/// one job of `other` is due in the last bucket.
async fn many_expired_ttrs(jobs: usize) -> Bench {
    let bench = Bench::shared_redis().await;
    for bucket in bench.store.buckets().all() {
        let names = (0..).map(|number| id(&format!("mass-{number}")));
        let mine: Vec<JobId> = names.filter(|id| bench.bucket(id) == bucket).take(jobs).collect();
        for batch in mine.chunks(250) {
            let batch: Vec<NewJob> = batch.iter().map(|id| job(id.as_str(), "mass")).collect();
            let count = batch.len();
            bench.call::<verb::Put>(bucket, batch).await;
            let popped = bench.pop_in(bucket, vec![want("mass", 250)]).await;
            assert_eq!(popped[0].jobs.len(), count);
        }
    }
    let last = bench.store.buckets().all().last().expect("a bucket");
    let mut names = (0..).map(|number| format!("other-{number}"));
    let other = names.find(|name| bench.bucket(&id(name)) == last).expect("one");
    // This job falls due after the TTRs of the others have ended.
    bench.put(delayed(&other, "other", Millis::new(61_000))).await.expect("put");
    bench.advance(Millis::new(61_000));
    bench
}

#[tokio::test]
async fn many_expired_ttrs_do_not_delay_other_due_jobs() {
    for jobs in [300, 600] {
        let bench = many_expired_ttrs(jobs).await;
        let buckets: Vec<Bucket> = bench.store.buckets().all().collect();
        let mut promoted = promote_together(&*bench.store, buckets.clone(), 500).await;
        let first = promoted.remove(0).expect("promoted").total();
        // Ended TTRs use half of the budget at most.
        assert!((1..=125).contains(&first.timed_out), "{first:?}");
        let last = promoted.pop().expect("one").expect("promoted");
        assert_eq!(ready_in(&last, "other").count, 1, "{last:?}");
        // In the last bucket, the delayed job is promoted early too. At the end, no due job is
        // left.
        let mut expired = 0;
        for _ in 0..100 * buckets.len() {
            let promoted = promote_together(&*bench.store, buckets.clone(), 500).await;
            let all = promoted.into_iter().map(|part| part.expect("promoted").total());
            let moved: u64 = all.map(|moves| moves.timed_out).sum();
            if moved == 0 {
                break;
            }
            assert!(moved <= 250, "one call has promoted {moved} jobs; the limit is 250");
            expired += moved;
        }
        assert!(expired > 0 && bench.pop("mass", 1).await.len() == 1);
        let left = bench.promote().await.total().timed_out;
        assert_eq!(left, 0, "not all jobs with ended TTRs are ready again");
    }
}

#[tokio::test]
async fn many_due_jobs_do_not_delay_other_topics() {
    let bench = Bench::one_bucket_redis().await;
    for batch in (0..1_000).collect::<Vec<_>>().chunks(250) {
        let jobs = batch.iter().map(|n| delayed(&format!("mass-{n}"), "mass", SECOND)).collect();
        bench.call::<verb::Put>(Bucket::FIRST, jobs).await;
    }
    bench.put(delayed("other", "other", MINUTE)).await.expect("put");
    bench.advance(MINUTE);
    let promoted = promote_in(&*bench.store, Bucket::FIRST, 500).await.expect("promoted");
    let ready = ["mass", "other"].map(|name| ready_in(&promoted, name).count);
    assert_eq!(ready, [250, 1]);
    // If only one topic has due jobs, it gets the whole budget.
    let promoted = promote_in(&*bench.store, Bucket::FIRST, 500).await.expect("promoted");
    assert_eq!(promoted.total().ready.count, 500);
}

/// Creates a store on Redis with one job in each of 600 topics, whose deadlines of this kind are
/// overdue.
async fn many_topics(kind: &str) -> Bench {
    let bench = Bench::one_bucket_redis().await;
    for number in 0..600 {
        let delay = if kind == "delayed" { SECOND } else { Millis::ZERO };
        let new = with(delayed(&format!("x{number}"), &format!("t{number}"), delay), |policy| {
            (policy.ttr, policy.dead_retention) = (SECOND, SECOND);
            policy.finished_retention = SECOND;
            policy.expires_after = (kind == "expiring").then_some(SECOND);
        });
        match kind {
            "delayed" | "expiring" => drop(bench.put(new).await.expect("put")),
            "reserved" => drop(bench.popped(new).await),
            "dead" => drop(bench.buried(new).await),
            "finished" => drop(bench.finished(new, None).await),
            _ => unreachable!("no kind of deadline"),
        }
    }
    bench
}

#[tokio::test]
async fn a_job_that_falls_due_now_waits_for_no_backlog() {
    for kind in ["delayed", "expiring", "reserved", "dead", "finished"] {
        let bench = many_topics(kind).await;
        bench.put(delayed("late", "other", HOUR)).await.expect("put");
        bench.put(job("held", "slow")).await.expect("put");
        bench.pop_as("slow", 1, Some(HOUR), None).await;
        bench.advance(HOUR);
        promote_in(&*bench.store, Bucket::FIRST, 500).await.expect("promoted");
        let found = bench.states(&["late", "held"].map(id)).await;
        assert_eq!(found, [Some(State::Ready); 2], "behind {kind} jobs of many topics");
        for _ in 0..600 {
            let next = promote_in(&*bench.store, Bucket::FIRST, 500).await.expect("promoted").next;
            if next.is_none_or(|next| !next.has_passed()) {
                break;
            }
        }
        assert_eq!(bench.promote().await.topics, [], "{kind} jobs are left");
    }
}
