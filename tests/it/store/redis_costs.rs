//! Redis commands of the life of a job without optional fields. Such a job must not pay for a
//! feature that it does not use.

use crate::store::prelude::*;

/// Returns how often Redis has run each command.
fn calls(bench: &Bench) -> BTreeMap<String, u64> {
    let stats = command(bench, "INFO commandstats");
    let stats = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    let count = |fields: &str| fields.strip_prefix("calls=")?.split(',').next()?.parse().ok();
    stats.map(|(name, fields)| (name.to_owned(), count(fields).expect("a count"))).collect()
}

/// Returns the commands that `work` runs, as `name count` in alphabetical order.
async fn cost(bench: &Bench, work: impl Future<Output = ()>) -> String {
    command(bench, "CONFIG RESETSTAT");
    work.await;
    let counts = calls(bench).into_iter().filter(|(name, _)| {
        !matches!(name.as_str(), "info" | "config|resetstat" | "evalsha" | "eval" | "time")
    });
    counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn a_plain_job_costs_no_command_for_optional_fields() {
    let bench = Bench::one_bucket_redis().await;
    // Loads the scripts. Its two remaining jobs keep the topic's sets from becoming empty.
    live(&bench, "loading").await;
    let costs = live(&bench, "measured").await;
    let expected = [
        "hmget 2, hset 2, zadd 5",
        "zadd 1, zcard 1, zrange 8, zrem 4, zremrangebyrank 2",
        "hmget 4, hset 2, zadd 2, zrem 2, zscore 2",
        "hmget 2, hset 1, zadd 2, zcard 3, zrange 1, zremrangebyrank 2",
        "exists 1, hdel 4, hmget 1, zrem 1",
    ];
    assert_eq!(costs, expected);
}

#[tokio::test]
async fn puts_of_one_existing_id_take_one_call() {
    let bench = Bench::one_bucket_redis().await;
    bench.put(job("a", "t")).await.expect("put");
    let keep = NewJob { on_conflict: OnConflict::Keep, ..job("a", "t") };
    let mut calls = vec![keep; 100];
    calls.push(job("a", "t"));
    command(&bench, "CONFIG RESETSTAT");
    let replies = bench.call::<verb::Put>(bench.bucket(&id("a")), calls).await;
    let kept = replies.iter().flatten().filter(|placed| placed.how == PutOutcome::Kept);
    assert_eq!(
        (kept.count(), &replies[100]),
        (100, &crate::store::batches::exists(State::Ready, "t"))
    );
    assert_eq!(self::calls(&bench).get("evalsha"), Some(&1));
}

/// Puts two jobs and waits until they are due; pops, releases and finishes one of them. Returns the
/// cost of each of these steps.
async fn live(bench: &Bench, name: &str) -> [String; 5] {
    let jobs = ["a", "b"].map(|end| delayed(&format!("{name}-{end}"), "t", MINUTE));
    let put = cost(bench, async {
        for job in jobs {
            bench.put(job).await.expect("put");
        }
    });
    let put = put.await;
    bench.advance(MINUTE);
    let promote = cost(bench, async { drop(bench.promote().await) }).await;
    let popped = bench.pop_one("t").await;
    let release = async {
        bench.release(&popped.id, Some(popped.reservation), None).await.expect("release");
    };
    let release = cost(bench, release).await;
    let mut popped = None;
    let pop = cost(bench, async { popped = bench.pop("t", 1).await.pop() }).await;
    let popped = popped.expect("a job");
    let finish = async {
        bench.finish(&popped.id, Some(popped.reservation)).await.expect("finish");
    };
    [put, promote, release, pop, cost(bench, finish).await]
}
