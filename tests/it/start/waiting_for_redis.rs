//! A store that is unavailable or still loading. The server logs this and waits, unless the store
//! is unsuitable.

use crate::start::prelude::*;

const AOF: [&str; 2] = ["--appendonly", "yes"];

#[test]
fn the_start_waits_for_a_redis_that_starts_later() {
    let (place, mut redis) = (WorkDir::new(), Redis::later(&AOF));
    let server = Logged::begin(&place, &store(&redis.url(), ""));
    let said = server.wait_for("waiting for the store");
    assert!(said.contains("refused") && said.contains("store.connect_timeout"), "{said}");
    redis.resume();
    let said = server.wait_for("serving");
    assert_eq!(said.matches("waiting for the store").count(), 1, "{said}");
}

#[test]
fn the_start_waits_for_a_loading_redis_and_checks_it_then() {
    // Redis loads each key of the AOF with this delay in microseconds, and answers clients after
    // every 1,024 keys.
    let slow = ["--key-load-delay", "500", "--maxmemory-policy", "allkeys-lru"];
    let (place, mut redis) = (WorkDir::new(), Redis::with(&[&AOF[..], &slow].concat()));
    let fill = "for i = 1, 8000 do redis.call('SET', 'other:' .. i, '1') end";
    ask(redis.port(), &["EVAL", fill, "0"]).expect("an answer");
    redis.kill();
    redis.begin();
    // Otherwise the server would log the closed port as the reason for some seconds.
    eventually_blocking!(ask(redis.port(), &["PING"]).is_some(), "the port is not open");
    let server = Logged::begin(&place, &store(&redis.url(), ""));
    let said = server.wait_for("loading its data");
    assert!(!said.contains("maxmemory-policy"), "{said}");
    let (code, said) = server.ended();
    let last = said.lines().last().unwrap_or_default();
    assert!(code == Some(1) && last.contains("maxmemory-policy is \"allkeys-lru\""), "{said}");
}

#[test]
fn the_start_waits_for_a_replica_that_ack_needs() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let server = Logged::begin(&place, &store(&redis.url(), "ack = \"replica\""));
    let said = server.wait_for("waiting for the store");
    assert!(said.contains("needs a connected replica"), "{said}");
    let of = format!("127.0.0.1 {}", redis.port());
    let _replica = Redis::with(&[&AOF[..], &["--replicaof", &of]].concat());
    server.wait_for("serving");
}

#[test]
fn after_the_timeout_the_last_reason_is_reported() {
    let place = WorkDir::new();
    let nowhere = format!("redis://user:secret@127.0.0.1:{}/", free_port());
    let nowhere = store(&nowhere, "connect_timeout = \"1s\"");
    let (code, said) = Logged::begin(&place, &nowhere).ended();
    let last = said.lines().last().unwrap_or_default();
    let words = ["delay-queue: failed to open Redis at 127.0.0.1", "refused"];
    assert!(code == Some(1) && words.iter().all(|word| last.contains(word)), "{said}");
    // One line at the begin of the wait and one at its end.
    assert!(said.lines().count() == 2 && !said.contains("secret"), "{said}");
    // An export waits for the store too, but the doctor does not.
    let env = [("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "1s")];
    let export = place.run(&nowhere, &env, &["export", "x"]);
    let said = text(&export.stderr);
    assert!(said.contains("waiting for the store") && said.contains("refused"), "{said}");
    let hour = [("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "1h")];
    one_line(&place.run(&nowhere, &hour, &["doctor"]), &["to repair"]);
}

#[test]
fn a_signal_ends_the_wait_for_redis() {
    for signal in ["-TERM", "-INT"] {
        let place = WorkDir::new();
        let url = format!("redis://127.0.0.1:{}/", free_port());
        let server = Logged::begin(&place, &store(&url, "connect_timeout = \"1h\""));
        server.wait_for("waiting for the store");
        server.signal(signal);
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn the_start_waits_for_sentinels_and_their_master() {
    let (place, redis, port) = (WorkDir::new(), Redis::start(), free_port());
    let url = format!("redis+sentinel://127.0.0.1:{port}/main");
    let server = Logged::begin(&place, &store(&url, ""));
    server.wait_for("waiting for the store");
    let text = format!("port {port}\nbind 127.0.0.1\ndir {}\n", place.path().display());
    let file = place.file("sentinel.conf", &text);
    let sentinel = redis_server().arg(file).arg("--sentinel").spawn();
    let _sentinel = Killed(sentinel.expect("redis-server is installed"));
    server.wait_for("knows no such master");
    let monitor = ["SENTINEL", "MONITOR", "main", "127.0.0.1", &redis.port().to_string(), "1"];
    assert_eq!(ask(port, &monitor).expect("an answer").text(), "OK");
    server.wait_for("serving");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_waits_for_a_cluster_with_all_slots() {
    let bus = free_port().to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let (place, redis) = (WorkDir::new(), Redis::with(&[&AOF[..], &cluster].concat()));
    let url = format!("redis+cluster://127.0.0.1:{}", redis.port());
    let server = Logged::begin(&place, &store(&url, ""));
    server.wait_for("it knows of no master");
    let slots = |from: &str, to: &str| {
        let add = ask(redis.port(), &["CLUSTER", "ADDSLOTSRANGE", from, to]).expect("an answer");
        assert_eq!(add.text(), "OK");
    };
    slots("0", "99");
    server.wait_for("Hash slot not served");
    slots("100", "16383");
    server.wait_for("serving");
    place.server(&store(&url, "")).await;
}
