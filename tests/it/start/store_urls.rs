//! Refusals in one line, with nothing written: another kind of Redis than the URL says, settings
//! that contradict each other, and levels of `store.ack` that a Redis cannot give.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use crate::{
    start::outputs::{WorkDir, one_line, store, untouched},
    support::{Redis, free_port, process::Process, resp::ask, shared_cluster},
};

#[test]
fn urls_that_are_none() {
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
fn settings_that_do_not_go_together() {
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
    assert!(!place.path().join("data").exists(), "nothing was made");
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
fn another_kind_of_redis_than_the_url_says() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let cluster = shared_cluster::shared();
    let nodes = cluster.url();
    let node = nodes.trim_start_matches("redis+cluster://").split(',').next().expect("a node");

    let as_cluster = store(&format!("redis+cluster://127.0.0.1:{}", redis.port()), "");
    place.refused(&as_cluster, &["not a node of a cluster", "begin store.url with redis://"]);
    place.ill(&as_cluster, &["begin store.url with redis://"]);
    untouched(&redis);

    let prefix = shared_cluster::prefix();
    let as_single = store(&format!("redis://{node}"), &format!("prefix = \"{prefix}\""));
    place.refused(&as_single, &["node of a cluster", "redis+cluster://"]);
    place.ill(&as_single, &["node of a cluster", "redis+cluster://"]);
    for port in cluster.masters() {
        let keys = ask(port, &["KEYS", &format!("*{prefix}:*")]).expect("an answer");
        assert!(keys.list().is_empty(), "{keys:?}");
    }

    // A server that is no Sentinel, and an address without a server.
    let url = format!("redis+sentinel://127.0.0.1:{}/main", redis.port());
    place.refused(&store(&url, ""), &["the master \"main\" by its Sentinels", "SENTINEL"]);
    untouched(&redis);
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", free_port(), free_port());
    place.refused(&store(&url, ""), &["failed to open the cluster", "127.0.0.1", "refused"]);
}

/// Starts a proxy that lets scripts use declared keys only, as some servers do, and returns its
/// port.
fn strict(redis: &Redis) -> u16 {
    const REFUSAL: &[u8] = b"-ERR Error running script: script tried accessing undeclared key\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (own, port) = (listener.local_addr().expect("it is bound").port(), redis.port());
    // The thread ends with the process; only the program under test connects.
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("it runs");
            let (mut answers, mut back) =
                (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
            thread::spawn(move || std::io::copy(&mut answers, &mut back));
            thread::spawn(move || {
                let mut buffer = [0; 64 * 1024];
                while let Ok(length @ 1..) = client.read(&mut buffer) {
                    let asked = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    // A script that reads, with one key declared and another one as an argument.
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
fn a_server_that_wants_every_key_declared() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&format!("redis://127.0.0.1:{}", strict(&redis)), "");
    place.refused(&settings, &["requires scripts to declare every key", "undeclared key"]);
    untouched(&redis);
    place.ill(&settings, &["requires scripts to declare every key"]);
}

#[test]
fn a_replica_is_refused_as_a_store() {
    let (place, master) = (WorkDir::new(), Redis::start());
    let of = format!("127.0.0.1 {}", master.port());
    let replica = Redis::with(&["--appendonly", "yes", "--replicaof", &of]);
    let settings = store(&replica.url(), "");
    place.refused(&settings, &["role is \"slave\"", "address of the master"]);
    place.ill(&settings, &["role is \"slave\""]);
    untouched(&master);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_of_ack_that_this_redis_cannot_give() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let replica = store(&redis.url(), "ack = \"replica\"");
    place.refused(&replica, &["store.ack = \"replica\" needs a connected replica"]);
    place.ill(&replica, &["store.ack = \"replica\" needs a connected replica"]);
    untouched(&redis);

    let fsync = store(&redis.url(), "ack = \"fsync\"");
    redis.command("CONFIG SET appendfsync everysec").expect("an answer");
    let info = ask(redis.port(), &["INFO", "server"]).expect("an answer");
    let version = info.text().split("redis_version:").nth(1).expect("a version");
    // Before 7.2 there is no WAITAOF; from then on everysec is enough.
    if version.starts_with("7.0") {
        place.refused(&fsync, &["store.ack = \"fsync\" needs appendfsync always", "everysec"]);
        place.ill(&fsync, &["store.ack = \"fsync\" needs appendfsync always"]);
        untouched(&redis);
    } else {
        place.well(&fsync, &["ack         fsync"]);
    }
    redis.command("CONFIG SET appendfsync always").expect("an answer");
    place.well(&fsync, &["ack         fsync", "appendfsync always"]);
    let file = place.file("fsync.toml", &fsync);
    let server = Process::start(place.path(), &["--config", &file]).await;
    let put = server.post("/jobs", serde_json::json!({"topic": "t"})).await.expect("an answer");
    assert_eq!(put.0, 201, "{put:?}");

    // Without an AOF, and with permission to lose jobs: that contradicts fsync.
    let no_aof = Redis::with(&["--appendonly", "no", "--appendfsync", "always"]);
    let settings = store(&no_aof.url(), "ack = \"fsync\"\naccept_data_loss = true");
    place.refused(&settings, &["store.ack = \"fsync\" needs an AOF", "appendonly"]);
    place.ill(&settings, &["store.ack = \"fsync\" needs an AOF"]);
    untouched(&no_aof);
}
