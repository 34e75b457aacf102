//! Priorities: the order of ready jobs, and the calls that show or change it.

use delay_queue::job::{Bucket, Buckets, JobId, UnixMillis};

use crate::api::prelude::*;

/// Returns ids that belong to one bucket, since pops have an exact order only within a bucket.
pub fn ids_in_one_bucket(count: usize) -> Vec<String> {
    let first = |id: &JobId| Buckets::SIXTEEN.of(id) == Bucket::FIRST;
    let ids = (0..).map(|n| format!("job-{n}")).filter(|id| first(&id.parse().expect("an id")));
    ids.take(count).collect()
}

/// Returns the bodies of popped or listed jobs.
fn bodies(jobs: &[Value]) -> Vec<u64> {
    jobs.iter().map(|job| job["body"].as_u64().expect("a number")).collect()
}

async fn until_ready(server: &Server, topic: &str, count: usize) {
    eventually!(server.topic(topic).await["ready"] == count, "{count} jobs do not become ready");
}

pub async fn jobs_are_popped_by_priority_and_then_due_time(server: Server) {
    // The body is the expected position. There are ten priorities with two due times each.
    let ids = ids_in_one_bucket(20);
    let now = server.put(r#"{"topic":"clock"}"#).await["due_at"].clone();
    let now: UnixMillis = now.as_str().expect("a text").parse().expect("a time");
    let job = |n: usize| {
        let (place, priority) = (n * 7 % 20, 9 - n * 7 % 20 / 2);
        // The times are absolute, so that a slow put does not change the order.
        let due_at = now.after(Millis::new(if place % 2 == 0 { 5_000 } else { 5_500 })).get();
        json!({"topic": "t", "id": ids[n], "body": place, "priority": priority, "due_at": due_at})
    };
    server.put_all((0..12).map(job)).await;
    for n in 12..20 {
        server.put(job(n)).await;
    }
    until_ready(&server, "t", 20).await;
    let mut popped = server.pop("t/pop").await;
    popped.extend(server.pop("t/pop?count=13").await);
    popped.extend(server.pop("t/pop?count=100").await);
    assert_eq!(bodies(&popped), (0..20).collect::<Vec<_>>());
    for (job, priority) in popped.iter().zip((0..10).rev().flat_map(|digit| [digit, digit])) {
        let shown = job.get("priority").map_or(json!(4), Value::clone);
        assert_eq!((shown, job["priority"].is_null()), (json!(priority), priority == 4), "{job}");
    }
}

pub async fn a_change_moves_a_job_between_priorities(server: Server) {
    let ids = ids_in_one_bucket(3);
    for (n, delay) in ["0s", "0s", "1h"].into_iter().enumerate() {
        server.put(json!({"topic": "t", "id": ids[n], "body": n, "delay": delay})).await;
    }
    let patch = async |n: usize, change: Value| server.patch(&ids[n], change).await.ok(200);
    let before = server.job(&ids[1]).await;
    assert_eq!(before["priority"], 4);
    let changed = patch(1, json!({"priority": 7, "ttr": null})).await;
    assert_eq!(changed, with(&before, json!({"priority": 7})));
    // A client may send the whole answer of a GET back, also with another priority.
    for shown in [changed, with(&before, json!({"priority": 5}))] {
        assert_eq!(patch(1, shown.clone()).await, shown);
    }
    assert_eq!(patch(2, json!({"priority": 9})).await["state"], "delayed");
    for change in [json!({"ttr": 90, "priority": null}), json!({"delay": 0})] {
        assert_eq!(patch(2, change).await["priority"], 9);
    }
    assert_eq!(bodies(&server.pop("t/pop?count=3").await), [2, 1, 0]);
}

async fn listed(server: &Server, query: &str, limit: usize) -> Vec<u64> {
    bodies(&server.all_pages(&format!("/topics/{query}&limit={limit}")).await)
}

pub async fn lists_and_filters_work_across_priorities(server: Server) {
    // The expected order differs from the order of ids and of puts.
    const JOBS: [(u8, f64); 6] = [(4, 0.3), (9, 0.2), (0, 0.1), (9, 0.4), (4, 0.5), (0, 0.6)];
    let ids = ids_in_one_bucket(12);
    let put = |topic: &str, id: &str, n: usize, later: f64| {
        let (priority, delay) = (JOBS[n].0, JOBS[n].1 + later);
        json!({"topic": topic, "id": id, "body": n, "priority": priority, "delay": delay})
    };
    server.put_all((0..6).map(|n| put("t", &ids[n], n, 0.0))).await;
    let later = |n: usize| put("later", ids[6 + n].as_str(), n, 3600.0);
    server.put_all((0..6).map(later)).await;
    // Lists are sorted only within a bucket, and contain one bucket after another.
    let spread = (0..60).map(|n| put("spread", &format!("spread-{n}"), n % 6, 0.0));
    server.put_all(spread).await;
    until_ready(&server, "t", 6).await;
    until_ready(&server, "spread", 60).await;

    let mut due = Vec::new();
    for id in &ids[..6] {
        let job = server.job(id).await;
        due.push(job["due_at"].as_str().expect("a time").to_owned());
    }
    let (from, until) = (format!("&due_after={}", due[0]), format!("&due_before={}", due[3]));
    let both = format!("{from}&due_before={}", due[4]);
    for limit in 1..=7 {
        let ready = async |filter: &str| {
            listed(&server, &format!("t/jobs?state=ready{filter}"), limit).await
        };
        assert_eq!(ready("").await, [1, 3, 0, 4, 2, 5], "{limit}");
        assert_eq!(ready(&from).await, [3, 0, 4, 5], "{limit}");
        assert_eq!(ready(&until).await, [1, 0, 2], "{limit}");
        assert_eq!(ready(&both).await, [3, 0], "{limit}");
        let delayed = listed(&server, "later/jobs?state=delayed", limit).await;
        assert_eq!(
            delayed,
            [2, 1, 0, 3, 4, 5],
            "delayed jobs are not sorted by due time; limit {limit}"
        );
        let mut spread = listed(&server, "spread/jobs?state=ready", limit).await;
        spread.sort_unstable();
        assert_eq!(spread, (0..60).map(|n| n / 10).collect::<Vec<_>>(), "{limit}");
    }
}

pub async fn the_oldest_ready_job_may_be_of_any_priority(server: Server) {
    for (topic, first) in [("low", 0), ("high", 9)] {
        let put = |priority| json!({"topic": topic, "priority": priority});
        server.put(put(first)).await;
        pass(Duration::from_millis(1_200)).await; // the test needs jobs of a certain age
        server.put(put(9 - first)).await;
        server.put(put(4)).await;
        let shown = server.topic(topic).await;
        let age = shown["oldest_ready_age"].as_f64().expect("an age");
        assert!(age >= 1.1, "{shown}");
    }
}
