//! What servers poll for while no client asks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::server::{Server, pass},
    support::Redis,
};

#[tokio::test(flavor = "multi_thread")]
async fn topics_without_waiting_consumers_are_not_polled_for() {
    const TOPICS: usize = 300;
    let redis = Arc::new(Redis::start());
    let (one, other) = (Server::on(Arc::clone(&redis)).await, Server::on(Arc::clone(&redis)).await);
    let jobs: Vec<Value> = (0..2 * TOPICS)
        .map(|n| json!({"topic": format!("t{}", n % TOPICS), "id": format!("job:{n}")}))
        .collect();
    one.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);
    // Each is popped from once here, and drained there.
    for server in [&one, &other] {
        for topic in 0..TOPICS {
            assert_eq!(server.pop(&format!("t{topic}/pop")).await.len(), 1);
        }
    }
    let counted = || {
        let info = redis.command("INFO commandstats").expect("an answer");
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_zcard:calls="));
        let calls = line.and_then(|line| line.split(',').next()).expect("a count");
        calls.parse::<u64>().expect("a number")
    };
    let begin = Instant::now();
    loop {
        let before = counted();
        pass(Duration::from_secs(2)).await; // time is what is measured against
        let calls = counted() - before;
        if calls == 0 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{calls} polls in 2 s for nothing");
    }
    // The next pop finds the jobs that came meanwhile.
    other.put(r#"{"topic":"t7","id":"later"}"#).await;
    assert_eq!(one.pop("t7/pop").await[0]["id"], "later");
}
