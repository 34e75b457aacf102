//! Sizes of topics and of the whole store.

use crate::store::prelude::*;

pub async fn a_page_of_large_jobs_ends_early_and_the_next_continues(bench: Bench) {
    const BODY: usize = 100_000;
    let mut ids = bench.ids(20).1;
    for id in &ids {
        let new = NewJob { body: text(BODY), ..job(id.as_str(), "t") };
        bench.put(new).await.expect("put");
    }
    let range = JobRange { limit: 100, ..JobRange::default() };
    let jobs = bench.list_all("t", State::Ready, range, async |page: &JobPage| {
        let bytes: usize = page.jobs.iter().map(|job| job.body.len()).sum();
        assert!(bytes <= (512 << 10) + 2 * BODY, "{bytes}");
    });
    let mut found: Vec<JobId> = jobs.await.into_iter().map(|job| job.id).collect();
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
}

pub async fn usage_of_a_topic_is_the_sum_of_its_bodies(bench: Bench) {
    const SHORT: usize = 160;
    const LONG: usize = 8_000;
    let topic_usage = async |bench: &Bench| {
        let all = bench.store.topic_usage(topic("t")).await.expect("usage");
        (all.jobs, usize::try_from(all.bytes).expect("a small number"))
    };
    assert_eq!(topic_usage(&bench).await, (0, 0));
    let jobs = [("a", "t", SHORT), ("b", "t", LONG), ("c", "t", SHORT), ("d", "u", LONG)];
    for (name, of, bytes) in jobs {
        let new = NewJob { body: text(bytes), ..job(name, of) };
        bench.put(kept(new, HOUR)).await.expect("put");
    }
    let refused = bench.put(NewJob { body: text(LONG), ..job("a", "t") }).await;
    refused.expect_err("the id is taken");
    assert_eq!(topic_usage(&bench).await, (3, 2 * SHORT + LONG));
    let change = Change { body: Some(text(LONG)), ..Change::default() };
    bench.reschedule(&id("a"), change).await.expect("the body is replaced");
    assert_eq!(topic_usage(&bench).await, (3, SHORT + 2 * LONG));
    let replace = OnConflict::Replace;
    let other = NewJob { on_conflict: replace, body: text(LONG), ..delayed("c", "t", HOUR) };
    bench.put(other).await.expect("replaced");
    let bench = bench.reopen().await;
    assert_eq!(topic_usage(&bench).await, (3, 3 * LONG));
    let popped = bench.pop_one("t").await;
    assert_eq!(topic_usage(&bench).await, (3, 3 * LONG), "held");
    bench.finish_with(&popped.id, None, Some(text(LONG))).await.expect("finished");
    assert_eq!(topic_usage(&bench).await, (2, 2 * LONG), "a finished job counts");
    assert_eq!(bench.store.usage().await.expect("usage").jobs, 4, "it is not in the store");
    bench.delete(&id("c")).await.expect("deleted");
    for bucket in bench.store.buckets().all() {
        let purge = Purge { topic: topic("t"), state: State::Ready, limit: 9 };
        bench.call::<verb::Purge>(bucket, purge).await;
    }
    assert_eq!(topic_usage(&bench).await, (0, 0));

    // With this number of jobs, the store estimates the size from a sample.
    for number in 0..1_200 {
        let job = NewJob { body: text(SHORT), ..job(&format!("many-{number}"), "many") };
        bench.put(job).await.expect("put");
    }
    let many = bench.store.topic_usage(topic("many")).await.expect("usage");
    assert_eq!((many.jobs, many.bytes), (1_200, 1_200 * SHORT as u64));
}

pub async fn the_store_reports_its_number_of_jobs_and_its_size(bench: Bench) {
    let usage = async || bench.store.usage().await.expect("the usage of the store");
    let before = usage().await;
    assert_eq!(before.jobs, 0);
    // A megabyte is noticeable even while other tests write.
    for number in 0..10 {
        let job = NewJob { body: text(100_000), ..job(&format!("{number}"), "t") };
        bench.put(job).await.expect("put");
    }
    let full = usage().await;
    assert_eq!(full.jobs, 10);
    assert!(full.bytes > 1_000_000, "{full:?}");
    bench.delete(&id("3")).await.expect("deleted");
    assert_eq!(usage().await.jobs, 9);
}
