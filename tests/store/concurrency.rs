//! Several callers at once.

use std::collections::HashSet;

use delay_queue::store::How;
use tokio::task::JoinSet;

use crate::bench::{Bench, SECOND, delayed, job};

pub async fn many_poppers_and_one_job_have_one_winner(bench: Bench) {
    for round in 0..20 {
        bench.put(job(&format!("job:{round}"), "t")).await.expect("put");
        let mut poppers = JoinSet::new();
        for _ in 0..16 {
            let bench = bench.clone();
            poppers.spawn(async move { bench.pop("t", 1).await.len() });
        }
        assert_eq!(poppers.join_all().await.into_iter().sum::<usize>(), 1, "round {round}");
    }
}

pub async fn two_promoters_and_many_poppers_deliver_each_job_once(bench: Bench) {
    const JOBS: usize = 500;
    for number in 0..JOBS {
        bench.put(delayed(&format!("job:{number}"), "t", SECOND)).await.expect("put");
    }
    bench.advance(SECOND);
    let mut promoters = JoinSet::new();
    for _ in 0..2 {
        let bench = bench.clone();
        promoters.spawn(async move {
            let promoted = bench.promote().await;
            promoted.iter().map(|promoted| promoted.total().ready).sum::<u64>()
        });
    }
    let mut poppers = JoinSet::new();
    for _ in 0..8 {
        let bench = bench.clone();
        poppers.spawn(async move {
            let mut mine = Vec::new();
            while mine.len() < JOBS / 8 {
                mine.extend(bench.pop("t", 1).await.into_iter().map(|job| job.id));
            }
            mine
        });
    }
    let promoted: u64 = promoters.join_all().await.into_iter().sum();
    let mut popped: Vec<_> = poppers.join_all().await.into_iter().flatten().collect();
    popped.extend(bench.pop("t", 100).await.into_iter().map(|job| job.id));
    assert_eq!(promoted, JOBS as u64, "each job is promoted by one of the two");
    assert_eq!(popped.len(), JOBS);
    assert_eq!(popped.iter().collect::<HashSet<_>>().len(), JOBS);
}

pub async fn one_of_many_puts_of_the_same_id_wins(bench: Bench) {
    let mut putters = JoinSet::new();
    for _ in 0..16 {
        let bench = bench.clone();
        putters.spawn(async move { bench.put(job("a", "t")).await });
    }
    let created = putters.join_all().await.into_iter().filter(Result::is_ok).count();
    assert_eq!(created, 1);
    assert_eq!(bench.put(job("a", "t")).await.map(|placed| placed.how == How::Created).ok(), None);
    assert_eq!(bench.pop("t", 10).await.len(), 1);
}
