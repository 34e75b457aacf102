//! Refusals in one line, without writing anything: a Redis of another kind than the URL,
//! contradictory settings, and levels of `store.ack` that a Redis cannot provide.

use std::net::TcpListener;

use crate::start::prelude::*;

#[test]
fn invalid_urls_are_refused() {
    let place = WorkDir::new();
    for (url, words) in [
        ("mysql://u:secret@h", ["redis+cluster://", "\"mysql:…\""]),
        ("redis:u:secret@h", ["redis://<host>:<port>/<db>", "\"redis:…\""]),
        ("secret", ["file:<directory>", "without a scheme"]),
        ("redis+sentinel://u:secret@h:1", ["must name the master", "/<master>/"]),
        ("redis+cluster://u:secret@h:1/3", ["must not name a database", "only 0"]),
        ("redis://u:secret@h,i", ["one host", "redis+cluster://"]),
        ("rediss://u:secret@h:x", ["<name>:<port>", "rediss:…"]),
    ] {
        for command in [&[][..], &["--check-config"], &["doctor"], &["export", "x"]] {
            let output = place.run(&store(url, ""), &[], command);
            let line =
                one_line(&output, &["failed to use the settings: store.url", words[0], words[1]]);
            assert!(!line.contains("secret") && output.stdout.is_empty(), "{line}");
        }
    }
}

#[test]
fn contradictory_settings_are_refused() {
    let place = WorkDir::new();
    let file = place.file("password", "secret\nmore\n");
    let empty = place.file("empty", "\n");
    let redis = |more: &str| store("redis://127.0.0.1:1/", more);
    let file_store = |more: &str| store("file:./data", more);
    for (settings, words) in [
        (redis("buckets = 0"), ["store.buckets", "1 to 1024"]),
        (redis("buckets = 1025"), ["store.buckets", "got 1025"]),
        (redis("buckets = 70000"), ["store.buckets", "70000"]),
        (redis("ack = \"often\""), ["store.ack", "\"memory\", \"replica\" or \"fsync\""]),
        (file_store("ack = \"often\""), ["store.ack", "\"often\""]),
        (file_store("ack = \"replica\""), ["store.ack", "file store"]),
        (file_store("ack = \"memory\""), ["store.ack", "file store"]),
        (
            redis(&format!("password = \"secret\"\npassword_file = \"{file}\"")),
            ["store.password_file", "together with store.password"],
        ),
        (
            redis(&format!("sentinel_password = \"secret\"\nsentinel_password_file = \"{file}\"")),
            ["store.sentinel_password_file", "together with store.sentinel_password"],
        ),
        (
            store("redis://:secret@h", "password = \"secret\""),
            ["store.password", "store.url has it too"],
        ),
        (
            store("redis://:secret@h", &format!("password_file = \"{file}\"")),
            ["store.password", "store.url has it too"],
        ),
        (
            store("redis://me:secret@h", "username = \"me\""),
            ["store.username", "store.url has it too"],
        ),
        (redis("username = \"me\""), ["store.username", "only the user \"me\""]),
        (store("redis://me@h", ""), ["store.username", "only the user \"me\""]),
        (redis("sentinel_username = \"me\""), ["store.sentinel_username", "only the user \"me\""]),
        (redis("password_file = \"nowhere\""), ["store.password_file", "nowhere"]),
        (redis(&format!("password_file = \"{empty}\"")), ["store.password_file", "first line"]),
        (
            store("rediss://h", "cert_file = \"x\""),
            ["store.key_file", "set together with store.cert_file"],
        ),
        (
            store("rediss://h", "key_file = \"x\""),
            ["store.key_file", "set together with store.cert_file"],
        ),
        (redis("ca_file = \"x\""), ["store.url", "must begin with rediss"]),
        (redis("cert_file = \"x\"\nkey_file = \"x\""), ["store.url", "must begin with rediss"]),
    ] {
        for command in [&[][..], &["--check-config"], &["doctor"]] {
            let output = place.run(&settings, &[], command);
            let line = one_line(&output, &["delay-queue: failed to ", words[0], words[1]]);
            assert!(!line.contains("secret") && output.stdout.is_empty(), "{line}");
        }
    }
    assert!(!place.path().join("data").exists(), "a refused start has created a store");
    let both = file_store("ack = \"fsync\"");
    assert!(place.run(&both, &[], &["--check-config"]).status.success());
}

#[test]
fn an_unreadable_file_is_reported_without_its_lines() {
    let place = WorkDir::new();
    for settings in [
        "[store]\npassword = \"secret\n",
        "[store]\npassword = \"secret\" x\n",
        "[store]\npassword = secret\n",
        "[store]\npassword = [\"secret\"]\n",
        "[store]\npassword = { is = \"secret\" }\n",
        "[store]\nurl = \"redis://:secret@h\n",
    ] {
        let line = one_line(&place.run(settings, &[], &[]), &["failed to read the settings"]);
        assert!(!line.contains("secret"), "{line}");
    }
    one_line(&place.run("[log]\nformat = \"xml\"\n", &[], &[]), &["log.format", "\"json\""]);
    one_line(&place.run("a\nb\n[c", &[], &[]), &["line 1", "expected", "settings.toml"]);
}

#[test]
fn a_redis_of_another_kind_than_its_url_is_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let cluster = shared::cluster();
    let nodes = cluster.url();
    let node = nodes.trim_start_matches("redis+cluster://").split(',').next().expect("a node");

    let as_cluster = store(&format!("redis+cluster://127.0.0.1:{}", redis.port()), "");
    place.refused(&as_cluster, &["not a node of a cluster", "begin store.url with redis://"]);
    place.assert_problem(&as_cluster, &["begin store.url with redis://"]);
    assert_empty(&redis);

    let prefix = shared::prefix();
    let as_single = store(&format!("redis://{node}"), &format!("prefix = \"{prefix}\""));
    place.refused(&as_single, &["node of a cluster", "redis+cluster://"]);
    place.assert_problem(&as_single, &["node of a cluster", "redis+cluster://"]);
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
    place.refused(&settings, &["requires scripts to declare every key", "undeclared key"]);
    assert_empty(&redis);
    place.assert_problem(&settings, &["requires scripts to declare every key"]);
}

#[test]
fn a_replica_is_refused_as_a_store() {
    let (place, master) = (WorkDir::new(), Redis::start());
    let of = format!("127.0.0.1 {}", master.port());
    let replica = Redis::with(&["--appendonly", "yes", "--replicaof", &of]);
    let settings = store(&replica.url(), "");
    place.refused(&settings, &["role is \"slave\"", "address of the master"]);
    place.assert_problem(&settings, &["role is \"slave\""]);
    assert_empty(&master);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_level_that_redis_cannot_provide_is_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let replica = store(&redis.url(), "ack = \"replica\"");
    place.refused(&replica, &["store.ack = \"replica\" needs a connected replica"]);
    place.assert_problem(&replica, &["store.ack = \"replica\" needs a connected replica"]);
    assert_empty(&redis);

    let fsync = store(&redis.url(), "ack = \"fsync\"");
    redis.command("CONFIG SET appendfsync everysec").expect("an answer");
    let info = ask(redis.port(), &["INFO", "server"]).expect("an answer");
    let version = info.text().split("redis_version:").nth(1).expect("a version");
    // Before 7.2, Redis has no WAITAOF. Since 7.2, `everysec` suffices.
    if version.starts_with("7.0") {
        place.refused(&fsync, &["store.ack = \"fsync\" needs appendfsync always", "everysec"]);
        place.assert_problem(&fsync, &["store.ack = \"fsync\" needs appendfsync always"]);
        assert_empty(&redis);
    } else {
        place.assert_healthy(&fsync, &["ack         fsync"]);
    }
    redis.command("CONFIG SET appendfsync always").expect("an answer");
    place.assert_healthy(&fsync, &["ack         fsync", "appendfsync always"]);
    let server = place.server(&fsync).await;
    let put = server.post("/jobs", serde_json::json!({"topic": "t"})).await.expect("an answer");
    assert_eq!(put.0, 201, "{put:?}");

    // A Redis without an AOF contradicts `fsync`, even if losses are accepted.
    let no_aof = Redis::with(&["--appendonly", "no", "--appendfsync", "always"]);
    let settings = store(&no_aof.url(), "ack = \"fsync\"\naccept_data_loss = true");
    place.refused(&settings, &["store.ack = \"fsync\" needs an AOF", "appendonly"]);
    place.assert_problem(&settings, &["store.ack = \"fsync\" needs an AOF"]);
    assert_empty(&no_aof);
}
