//! Stores that the server refuses at its start. Each message names the mistake and the remedy.

use crate::start::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_directory_is_refused() {
    let (place, mut first) = started("").await;
    place.refused("", &["data", "another delay-queue", "store.url"]);
    first.kill();
    place.server("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_buckets_is_refused() {
    let redis = Redis::start();
    for url in ["file:./data", &redis.url()] {
        let place = WorkDir::new();
        drop(place.server(&store(url, "buckets = 4")).await);
        place.refused(&store(url, "buckets = 8"), &["buckets = 4", "8", "store.buckets"]);
        // Without a number in the settings, the server uses the number of the store.
        place.server(&store(url, "")).await;
    }
}

/// A store may start later, but a Redis that cannot be a store is refused before the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsuitable_redis_is_refused_at_once() {
    let (place, hour) = (WorkDir::new(), [("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "1h")]);
    let refused = |redis: &Redis, words: &[&str]| {
        let settings = store(&redis.url(), "");
        one_line(&place.run(&settings, &hour, &[]), words);
        place.assert_problem(&settings, words);
    };
    let no_aof = Redis::with(&["--appendonly", "no"]);
    refused(&no_aof, &["appendonly is off", "accept_data_loss"]);
    let accepted = store(&no_aof.url(), "accept_data_loss = true");
    place.assert_healthy(&accepted, &["aof_enabled 0"]);
    assert_empty(&no_aof);
    place.server(&accepted).await;
    let evicts = Redis::with(&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"]);
    refused(&evicts, &["maxmemory-policy", "noeviction"]);
    assert_empty(&evicts);
    let of = format!("127.0.0.1 {}", free_port());
    let replica = Redis::with(&["--appendonly", "yes", "--replicaof", &of]);
    refused(&replica, &["role is \"slave\"", "address of the master"]);
    for (command, words) in [
        ("SET dq:layout \"schema=7 hash=xxh3-64 buckets=16\"", ["schema = 7", "newer"]),
        ("CONFIG SET requirepass secret", ["127.0.0.1", "NOAUTH"]),
    ] {
        let redis = Redis::start();
        redis.command(command).expect("an answer");
        refused(&redis, &words);
    }
}
