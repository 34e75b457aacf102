//! A Redis that was started again.

use crate::api::prelude::*;

/// Returns the keys with this ending.
fn keys(redis: &Redis, ending: &str) -> Vec<String> {
    let found = redis.command(&format!("KEYS *:{ending}")).expect("an answer");
    found.lines().filter(|line| line.ends_with(ending)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_restart_of_redis_left_in_no_set_is_delivered() {
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Server::at(&redis).await;
    let buckets = keys(&redis, "incarnation").len();
    eventually!(keys(&redis, "walked").len() == buckets, "the first run is not walked through");
    server.put(r#"{"topic":"t","id":"half"}"#).await;
    server.pop_one("t").await;
    // Half a release has taken it out of the set of reserved jobs.
    let [reserved] = &keys(&redis, "reserved:t")[..] else { panic!("one set") };
    assert_eq!(redis.command(&format!("ZREM {reserved} half")).as_deref(), Some(":1\r\n"));
    redis.kill();
    redis.resume();
    let again = server.get("/topics/t/pop?wait=50s").await.ok(200);
    assert_shows(&again["jobs"][0], json!({"id": "half", "attempt": 2}));
}
