//! Several servers on one Redis.

use crate::api::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_due_time_applies_to_consumers_of_other_servers() {
    let one = Server::on_redis().await;
    let other = Arc::new(one.beside().await);
    one.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let waiting = other.begin_pop("t/pop?wait=30s");
    let (moved_at, watch) = (Instant::now(), Stopwatch::start());
    one.patch("a", r#"{"delay":"200ms"}"#).await.ok(200);
    assert_eq!(waiting.await.expect("joined")[0]["id"], "a");
    assert!(moved_at.elapsed() >= Duration::from_millis(200), "{:?}", moved_at.elapsed());
    assert!(watch.elapsed() < scaled(Duration::from_secs(8)), "{:?}", watch.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_reaches_waiters_of_other_servers_in_a_second() {
    let one = Server::on_redis().await;
    let other = Arc::new(one.beside().await);
    let waiting = other.begin_pop("t/pop?wait=5s");
    other.until_pops_wait(1).await;
    one.post("/topics/t/pause", "").await.ok(200);
    // Every server gets the pause within a second, or later on a busy machine.
    eventually!(
        other.topic("t").await["paused"] == true,
        "the other server does not get the pause"
    );
    one.put(r#"{"topic":"t","id":"a"}"#).await;
    assert!(waiting.await.expect("joined").is_empty());
    one.post("/topics/t/resume", "").await.ok(200);
    assert_eq!(other.pop_one("t").await["id"], "a");
}

async fn start_with_rare_polls(redis: &Redis) -> Arc<Server> {
    let rarely = |all: &mut Settings| all.timer.poll_interval = Millis::new(60_000);
    Arc::new(Server::at_with(redis, rarely).await)
}

/// Starts two servers that learn of each other's calls only from hints, and waits until they have
/// subscribed to them.
pub async fn two_with_rare_polls(redis: &Redis) -> [Arc<Server>; 2] {
    let servers = [start_with_rare_polls(redis).await, start_with_rare_polls(redis).await];
    until_both_listen(redis).await;
    servers
}

pub async fn until_both_listen(redis: &Redis) {
    let listeners = || redis.command("PUBSUB SHARDNUMSUB {dq:0fb}:hints-5:0").expect("an answer");
    eventually!(listeners().ends_with(":2\r\n"), "{}", listeners());
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_reach_other_servers_without_a_poll() {
    let redis = Redis::start();
    let [one, other] = two_with_rare_polls(&redis).await;
    for (round, delay) in ["0s", "300ms", "0s", "300ms"].into_iter().enumerate() {
        let waiting = other.begin_pop("t/pop?wait=30s");
        other.until_pops_wait(1).await;
        one.put(format!(r#"{{"topic":"t","id":"job:{round}","delay":"{delay}"}}"#)).await;
        assert_eq!(waiting.await.expect("joined")[0]["id"], format!("job:{round}"));
    }

    one.post("/topics/t/pause", "").await.ok(200);
    eventually!(other.topic("t").await["paused"] == true, "the other server does not get the hint");
}

/// Returns the number of calls to Redis in three seconds without a request, and how many of them
/// began a poll.
async fn calls_while_idle(redis: &Redis) -> [u64; 2] {
    let count = |section, name| {
        let info = redis.command(&format!("INFO {section}")).expect("an answer");
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let count = line.and_then(|line| line.split(',').next()).expect("a count");
        count.parse::<u64>().expect("a number")
    };
    // Every poll reads the incarnations of all buckets at once.
    let counts = || {
        [count("stats", "total_commands_processed:"), count("commandstats", "cmdstat_mget:calls=")]
    };
    let before = counts();
    pass(Duration::from_secs(3)).await; // counts calls during this time
    let after = counts();
    [after[0] - before[0], after[1] - before[1]]
}

/// Starts a server with a waiting consumer, for which it polls.
async fn start_idle(redis: &Redis, servers: &mut JoinSet<Vec<Value>>) {
    let server = Server::at(redis).await;
    servers.spawn(async move { server.pop("t/pop?wait=60s").await });
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_servers_share_their_polls() {
    let redis = Redis::start();
    let mut servers = JoinSet::new();
    let first = Server::at(&redis).await;
    // Puts jobs that are not due, so that servers have deadlines to read.
    for number in 0..64 {
        let job = format!(r#"{{"topic":"t","id":"job:{number}","delay":"1h"}}"#);
        first.put(job).await;
    }
    first.stop().await;
    let mut counts = Vec::new();
    for more in [1, 1, 2] {
        for _ in 0..more {
            start_idle(&redis, &mut servers).await;
        }
        pass(Duration::from_secs(2)).await; // servers subscribe to hints within a second
        counts.push(calls_while_idle(&redis).await);
    }
    // Hints that come late on a busy machine save no poll, so the test looks for a calm moment.
    for _ in 0..4 {
        if counts[2][1] >= 3 * counts[0][1] {
            counts[2] = calls_while_idle(&redis).await;
        }
    }
    println!("calls and polls in 3 s of one server, two, and four: {counts:?}");
    let [[one, polls_of_one], [two, _], [_, polls_of_four]] = counts[..] else {
        unreachable!("three counts")
    };
    // Without sharing, four servers would poll four times as often. A single server skips most
    // reads of deadlines.
    assert!(polls_of_four < 3 * polls_of_one, "four servers do not share their polls: {counts:?}");
    assert!(5 * one < 4 * two, "a single server reads deadlines too often: {counts:?}");
    assert!(one > 10, "the timers of a single server do not poll: {counts:?}");
}

fn late(job: &Value) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "measures lateness by the consumer's clock")]
    let now = Timestamp::now();
    now.duration_since(time(job, "due_at")).try_into().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_of_a_killed_server_are_met_without_hints() {
    const POLL_INTERVAL: Millis = Millis::new(2_000);
    let (redis, dir) = (Redis::start(), tempfile::tempdir().expect("a temporary folder"));
    redis.command("ACL SETUSER quiet on nopass ~* resetchannels +@all").expect("an answer");
    let quiet = format!("redis://quiet:x@127.0.0.1:{}/", redis.port());
    let polls = |all: &mut Settings| all.timer.poll_interval = POLL_INTERVAL;
    let other = Server::at_with(&redis, polls).await;
    for round in 0..3 {
        let mut killed = Process::start(dir.path(), &["--store", &quiet]).await;
        let job = json!({"topic": "t", "id": format!("job:{round}"), "delay": "300ms"});
        assert_eq!(killed.post("/jobs", job).await.expect("an answer").0, 201);
        killed.kill();
        let job = other.pop_one("t").await;
        assert!(
            late(&job) < scaled(4 * Duration::from(POLL_INTERVAL)),
            "round {round}: {:?} late",
            late(&job)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_late_put_is_met() {
    const POLL_INTERVAL: Millis = Millis::new(4_000);
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port()).await;
    let server = Server::with(|settings| {
        settings.store.url = Secret(format!("redis://127.0.0.1:{}/", proxy.port));
        settings.timer.poll_interval = POLL_INTERVAL;
    })
    .await;
    server.put(r#"{"topic":"t","id":"first","delay":"1h"}"#).await; // Redis has the script after this put
    proxy.set(Mode::Late { text: "delayed-on-its-way", by: Duration::from_secs(2) });
    let put = r#"{"topic":"t","id":"delayed-on-its-way","delay":"300ms"}"#;
    server.post("/jobs", put).await.unavailable("unknown");
    let job = server.pop_one("t").await;
    assert_eq!((job["id"].as_str(), proxy.late()), (Some("delayed-on-its-way"), 1));
    assert!(late(&job) < scaled(4 * Duration::from(POLL_INTERVAL)), "{:?} late", late(&job));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_holds_its_lease_however_rarely_it_polls() {
    let redis = Redis::start();
    let server = start_with_rare_polls(&redis).await;
    // Milliseconds until the server's lease ends; -1 without a lease.
    let left = || {
        let script = "local time, lease = redis.call('TIME'), redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES') \
                      return lease[2] and lease[2] - time[1] * 1000 - time[2] / 1000 or -1";
        let answer = redis.command(&format!("EVAL \"{script}\" 1 {{dq:topics}}:servers"));
        let answer = answer.expect("an answer");
        answer.trim_start_matches(':').trim().parse::<i64>().expect("a number")
    };
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        assert!((1..=3_000).contains(&left()), "{} ms are left", left());
        pass(Duration::from_millis(100)).await; // the lease must be renewed during this time
    }
    Arc::into_inner(server).expect("the only reference").stop().await;
    assert_eq!(left(), -1, "a stopped server has left its lease");
}
