//! Three ways to read a store, which must agree: without the server, by the server's lists, and by
//! its counts.

use crate::faults::prelude::*;
use crate::support::scan_api::{counters_equal, scan_api, scans_equal};

const TOPICS: [&str; 2] = ["t", "u"];

/// Creates jobs in every state. Returns the number of jobs at the end.
async fn fill(server: &Process) -> usize {
    let jobs: Vec<Value> = (0..60)
        .map(|n| {
            // Some bodies are too long for a record on Redis.
            let body = format!("{n}:{}", "x".repeat(n * n * 2));
            let delay = ["0s", "200ms", "1h"][n % 3];
            json!({"topic": TOPICS[n % 2], "id": n.to_string(), "body": body, "delay": delay,
                "ttr": "1s", "max_attempts": if n % 4 == 0 { 1 } else { 20 },
                "expires_after": if n % 10 == 9 { json!(0.1) } else { json!(null) }})
        })
        .collect();
    let mut left = jobs.len();
    server.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    for n in 0..12 {
        // Some jobs with the short TTR have no more attempts afterwards.
        let ttr = if n % 6 == 5 { "1s" } else { "1h" };
        let popped = server.get(&format!("/topics/t/pop?ttr={ttr}&wait=5s")).await.1;
        let id = popped["jobs"][0]["id"].as_str().expect("an id").to_owned();
        let mut held = json!({"reservation": popped["jobs"][0]["reservation"]});
        let action = ["bury", "bury", "finish", "release", "touch", ""][n % 6];
        if action == "release" {
            held["count_attempt"] = json!(n % 12 == 3);
        }
        if !action.is_empty() {
            server.post_ok(&format!("/jobs/{id}/{action}"), held).await;
        }
        match n % 6 {
            0 => drop(server.post_ok(&format!("/jobs/{id}/kick"), json!({})).await),
            2 => left -= 1,
            _ => {}
        }
    }
    while server.get("/topics/t").await.1["reserved"] != 2 {
        tokio::time::sleep(Duration::from_millis(20)).await; // until the TTRs have ended
    }
    left
}

/// Asserts that the scan has jobs in every state, and that the comparisons notice if one of them is
/// removed or changed.
async fn assert_differences_are_found(server: &Process, scan: &Scan) {
    for state in [":delayed:t", ":ready:u", ":reserved:t", ":dead:t"] {
        let is = |set: &String| set.ends_with(state);
        let found = scan.iter().find(|(_, stored)| stored.sets.iter().any(is));
        let (id, _) = found.unwrap_or_else(|| panic!("the scan has no {state} job"));
        let mut without = scan.clone();
        without.remove(id);
        let counted = counters_equal(&server.base, &without, &TOPICS).await;
        assert!(counted.is_err_and(|what| what.contains("scanned")), "{state}");
        let listed = scan_api(&server.base, &TOPICS).await;
        assert!(scans_equal(&without, &listed).is_err_and(|what| what.starts_with(id)));
        let mut other = scan.clone();
        other.get_mut(id).expect("the scan has the job").bodies[0].push('x');
        assert!(scans_equal(&other, &listed).is_err_and(|what| what.starts_with(id)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_the_lists_and_the_counts_agree() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut server = Process::start(dir.path(), &["--store", "file:./data"]).await;
    let left = fill(&server).await;
    let read = || scan_file(&dir.path().join("data"), &TOPICS);
    let running = scan_agreed(&server.base, &TOPICS, read).await;
    assert_eq!(running.len(), left);
    assert_differences_are_found(&server, &running).await;
    server.kill();
    scans_equal(&running, &read()).expect("the contents have changed after the server was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_the_lists_and_the_counts_agree() {
    let (redis, dir) = (Redis::start(), tempfile::tempdir().expect("a temporary folder"));
    let server = Process::start(dir.path(), &["--store", &redis.url()]).await;
    let left = fill(&server).await;
    let scan = scan_agreed(&server.base, &TOPICS, || scan(&[redis.port()], &TOPICS)).await;
    assert_eq!(scan.len(), left);
    assert_differences_are_found(&server, &scan).await;
}
