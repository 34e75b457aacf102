//! A job of a high priority behind many others. A few pops must find its bucket.

use crate::api::prelude::*;

/// Number of jobs of the default priority, spread over 16 buckets.
const JOBS: usize = 1_000;
/// A job of a higher priority must be among the first 32 popped ones.
const SOON: usize = 32;

async fn put_many(server: &Server, topic: &str) {
    server.put_all((0..JOBS).map(|n| json!({"topic": topic, "body": n}))).await;
}

/// Puts jobs and then one of the highest priority through one server. Pops through another one, and
/// asserts that the urgent job is among the first.
async fn assert_early(from: &Server, to: &Server, topic: &str, count: usize) {
    let urgent = from.put(json!({"topic": topic, "priority": 9})).await;
    let mut popped = Vec::new();
    while popped.len() < SOON {
        let jobs = to.pop(&format!("{topic}/pop?wait=30s&count={count}")).await;
        assert!(!jobs.is_empty(), "{topic}: only {} jobs were delivered", popped.len());
        popped.extend(jobs.into_iter().map(|job| job["id"].clone()));
    }
    assert!(popped.contains(&urgent["id"]), "{topic}: {urgent} is not among {popped:?}");
}

/// Tests pops of each size through a server that has popped from the topic before, and through one
/// that has not. `name` makes the topics unique.
async fn assert_early_through(from: &Server, to: &Server, name: &str) {
    for count in [1, 8] {
        let topic = format!("{name}-new-{count}");
        put_many(from, &topic).await;
        assert_early(from, to, &topic, count).await;

        let topic = format!("{name}-known-{count}");
        put_many(from, &topic).await;
        for _ in 0..5 {
            // Each urgent job is the only job of its priority.
            assert!(!to.pop(&format!("{topic}/pop?wait=30s&count={count}")).await.is_empty());
            assert_early(from, to, &topic, count).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_job_comes_soon_on_files() {
    let server = Server::on_file_with(|settings| settings.store.buckets = Some(16)).await;
    assert_early_through(&server, &server, "file").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_job_comes_soon_through_every_server_on_redis() {
    let one = Server::on_redis().await;
    assert_early_through(&one, &one, "alone").await;
    let (two, three) = (one.beside().await, one.beside().await);
    for (to, name) in [(&one, "one"), (&two, "two"), (&three, "three")] {
        assert_early_through(&one, to, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_job_comes_soon_through_every_server_on_a_cluster() {
    let prefix = shared::prefix();
    let start = || {
        Server::with(|settings| {
            settings.store.url = Secret(shared::cluster().url());
            settings.store.prefix = prefix.clone();
            settings.store.buckets = Some(16);
        })
    };
    let servers = [start().await, start().await, start().await];
    for (n, to) in servers.iter().enumerate() {
        assert_early_through(&servers[0], to, &format!("cluster-{n}")).await;
    }
}
