//! Refusals in one line, without writing anything: a Redis of another kind than the URL,
//! contradictory settings, and levels of `store.ack` that a Redis cannot provide.

use std::net::TcpListener;

use crate::start::prelude::*;

#[test]
fn invalid_and_contradictory_settings_are_refused() {
    let place = WorkDir::new();
    let file = place.file("password", "secret\nmore\n");
    let empty = place.file("empty", "\n");
    let url = |url: &str| store(url, "");
    let redis = |more: &str| store("redis://127.0.0.1:1/", more);
    let file_store = |more: &str| store("file:./data", more);
    let with_password = |more: &str| store("redis://:secret@h", more);
    let [of_url, both] = ["settings: store.url", "together with"];
    let [in_url, only, no_tls] =
        ["store.url has it too", "only the user \"me\"", "must begin with rediss"];
    let [passwords, sentinel_passwords] = ["", "sentinel_"]
        .map(|of| format!("{of}password = \"secret\"\n{of}password_file = \"{file}\""));
    let [file, empty] = [file, empty].map(|file| format!("password_file = \"{file}\""));
    for (settings, words) in [
        (url("mysql://u:secret@h"), [of_url, "redis+cluster://", "\"mysql:…\""]),
        (url("redis:u:secret@h"), [of_url, "redis://<host>:<port>/<db>", "\"redis:…\""]),
        (url("secret"), [of_url, "file:<directory>", "without a scheme"]),
        (url("redis+sentinel://u:secret@h:1"), [of_url, "must name the master", "/<master>/"]),
        (url("redis+cluster://u:secret@h:1/3"), [of_url, "must not name a database", "only 0"]),
        (url("redis://u:secret@h,i"), [of_url, "one host", "redis+cluster://"]),
        (url("rediss://u:secret@h:x"), [of_url, "<name>:<port>", "rediss:…"]),
        (redis("buckets = 0"), ["", "store.buckets", "1 to 1024"]),
        (redis("buckets = 1025"), ["", "store.buckets", "got 1025"]),
        (redis("buckets = 70000"), ["", "store.buckets", "70000"]),
        (redis("ack = \"often\""), ["", "store.ack", "\"memory\", \"replica\" or \"fsync\""]),
        (file_store("ack = \"replica\""), ["", "store.ack", "file store"]),
        (file_store("ack = \"memory\""), ["", "store.ack", "file store"]),
        (redis(&passwords), [both, "store.password_file", "store.password"]),
        (
            redis(&sentinel_passwords),
            [both, "store.sentinel_password_file", "store.sentinel_password"],
        ),
        (with_password("password = \"secret\""), ["", "store.password", in_url]),
        (with_password(&file), ["", "store.password", in_url]),
        (store("redis://me:secret@h", "username = \"me\""), ["", "store.username", in_url]),
        (redis("username = \"me\""), ["", "store.username", only]),
        (url("redis://me@h"), ["", "store.username", only]),
        (redis("sentinel_username = \"me\""), ["", "store.sentinel_username", only]),
        (redis("password_file = \"nowhere\""), ["", "store.password_file", "nowhere"]),
        (redis(&empty), ["", "store.password_file", "first line"]),
        (store("rediss://h", "cert_file = \"x\""), [both, "store.key_file", "store.cert_file"]),
        (store("rediss://h", "key_file = \"x\""), [both, "store.key_file", "store.cert_file"]),
        (redis("ca_file = \"x\""), ["", "store.url", no_tls]),
        (redis("cert_file = \"x\"\nkey_file = \"x\""), ["", "store.url", no_tls]),
    ] {
        for command in [&[][..], &["--check-config"], &["doctor"], &["export", "x"]] {
            let output = place.run(&settings, &[], command);
            let line = one_line(&output, &[&["delay-queue: failed to "], &words[..]].concat());
            assert!(!line.contains("secret") && output.stdout.is_empty(), "{line}");
        }
    }
    assert!(!place.path().join("data").exists(), "a refused start has created a store");
    let synced = place.run(&file_store("ack = \"fsync\""), &[], &["--check-config"]);
    assert!(synced.status.success());
}

#[test]
fn an_unreadable_file_is_reported_without_its_lines() {
    let place = WorkDir::new();
    for (verb, settings) in [
        ("read", "[store]\npassword = \"secret\n"),
        ("read", "[store]\npassword = \"secret\" x\n"),
        ("read", "[store]\npassword = secret\n"),
        ("read", "[store]\npassword = [\"secret\"]\n"),
        ("read", "[store]\npassword = { is = \"secret\" }\n"),
        ("read", "[store]\nurl = \"redis://:secret#1\n"),
        ("read", "store = \"redis://:secret@h\"\n"),
        ("use", "[store]\nurl = \"redis://:secret#1\"\n"),
    ] {
        let words = format!("delay-queue: failed to {verb} the settings");
        let line = one_line(&place.run(settings, &[], &[]), &[&words]);
        assert!(!line.contains("secret"), "{line}");
    }
    one_line(&place.run("a\nb\n[c", &[], &[]), &["line 1", "expected", "settings.toml"]);
}

#[test]
fn a_redis_of_another_kind_than_its_url_is_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let cluster = shared::cluster();
    let nodes = cluster.url();
    let node = nodes.trim_start_matches("redis+cluster://").split(',').next().expect("a node");

    let as_cluster = store(&format!("redis+cluster://127.0.0.1:{}", redis.port()), "");
    let words = ["not a node of a cluster", "begin store.url with redis://"];
    place.assert_unfit(&as_cluster, &words);
    assert_empty(&redis);

    let prefix = shared::prefix();
    let as_single = store(&format!("redis://{node}"), &format!("prefix = \"{prefix}\""));
    place.assert_unfit(&as_single, &["node of a cluster", "redis+cluster://"]);
    for port in cluster.masters() {
        let keys = ask(port, &["KEYS", &format!("*{prefix}:*")]).expect("an answer");
        assert!(keys.list().is_empty(), "{keys:?}");
    }

    // Tries a server that is no Sentinel, and an address without a server.
    let url = format!("redis+sentinel://127.0.0.1:{}/main", redis.port());
    place.refused(&store(&url, ""), &["the master \"main\" by its Sentinels", "SENTINEL"]);
    assert_empty(&redis);
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", free_port(), free_port());
    place.refused(&store(&url, ""), &["failed to open the cluster", "127.0.0.1", "refused"]);
}

/// Starts a proxy that lets scripts use only declared keys, as some servers do. Returns its port.
fn start_strict_proxy(redis: &Redis) -> u16 {
    const REFUSAL: &[u8] = b"-ERR Error running script: script tried accessing undeclared key\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (own, port) = (listener.local_addr().expect("the listener is bound").port(), redis.port());
    // The thread ends with this process. Only the program under test connects to it.
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("Redis runs");
            let (mut answers, mut back) =
                (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
            thread::spawn(move || std::io::copy(&mut answers, &mut back));
            thread::spawn(move || {
                let mut buffer = [0; 64 * 1024];
                while let Ok(length @ 1..) = client.read(&mut buffer) {
                    let asked = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    // Refuses scripts that read a key which is only an argument.
                    let words: Vec<&str> = asked.split("\r\n").skip(2).step_by(2).collect();
                    let is_read = words.get(1).is_some_and(|text| text.contains("'EXISTS'"));
                    let done = match is_read && words.get(2) == Some(&"1") {
                        true => client.write_all(REFUSAL),
                        false => server.write_all(&buffer[..length]),
                    };
                    if done.is_err() {
                        return;
                    }
                }
            });
        }
    });
    own
}

#[test]
fn a_server_that_requires_declared_keys_is_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&format!("redis://127.0.0.1:{}", start_strict_proxy(&redis)), "");
    let words = ["requires scripts to declare every key", "undeclared key"];
    place.assert_unfit(&settings, &words);
    assert_empty(&redis);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_level_that_redis_cannot_provide_is_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let replica = store(&redis.url(), "ack = \"replica\"");
    place.assert_unfit(&replica, &["store.ack = \"replica\" needs a connected replica"]);
    assert_empty(&redis);

    let fsync = store(&redis.url(), "ack = \"fsync\"");
    redis.command("CONFIG SET appendfsync everysec").expect("an answer");
    let info = ask(redis.port(), &["INFO", "server"]).expect("an answer");
    let version = info.text().split("redis_version:").nth(1).expect("a version");
    // Before 7.2, Redis has no WAITAOF. Since 7.2, `everysec` suffices.
    if version.starts_with("7.0") {
        let words = ["store.ack = \"fsync\" needs appendfsync always", "everysec"];
        place.assert_unfit(&fsync, &words);
        assert_empty(&redis);
    } else {
        place.assert_healthy(&fsync, &["ack         fsync"]);
    }
    redis.command("CONFIG SET appendfsync always").expect("an answer");
    place.assert_healthy(&fsync, &["ack         fsync", "appendfsync always"]);
    let server = place.server(&fsync).await;
    server.put_job(json!({"topic": "t"})).await;

    // A Redis without an AOF contradicts `fsync`, even if losses are accepted.
    let no_aof = Redis::with(&["--appendonly", "no", "--appendfsync", "always"]);
    let settings = store(&no_aof.url(), "ack = \"fsync\"\naccept_data_loss = true");
    place.assert_unfit(&settings, &["store.ack = \"fsync\" needs an AOF", "appendonly"]);
    assert_empty(&no_aof);
}
