//! Stores that an earlier build of this schema has created. `schema_6/` contains a file store and
//! the Redis commands that recreate a Redis store; its README lists the jobs in each. When a schema
//! gets a successor, these stores test its upgrade.

use crate::start::prelude::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/start/schema_6").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn redis() -> Redis {
    let redis = Redis::start();
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).expect("connected");
    stream.write_all(&fixture("redis.commands")).expect("sent");
    stream.write_all(b"ECHO all-done\r\n").expect("sent");
    let (mut answers, mut part) = (String::new(), [0; 4096]);
    while !answers.contains("all-done") {
        let read = stream.read(&mut part).expect("an answer");
        assert!(read > 0, "{answers}");
        answers.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    assert!(!answers.contains("-ERR"), "{answers}");
    redis
}

/// Asserts that every job is as it was put, its reservation is valid, and calls on it succeed.
async fn assert_store_works(dir: &Path, store: &str, reservation: &str) {
    let arguments = ["--store", store];
    let mut server = Process::start(dir, &arguments).await;
    for (path, fields) in [
        (
            "/jobs/delayed",
            json!({
                "body": {"order": 4711}, "ttr": 30, "max_attempts": 3, "backoff": [0, 120],
                "priority": 9, "headers": {"X-Kind": "a"}, "due_at": "2035-01-01T00:00:00.000Z",
                "expires_at": "2035-01-02T00:00:00.000Z",
            }),
        ),
        ("/jobs/tried", json!({"state": "delayed", "attempt": 1})),
        ("/jobs/dead", json!({"state": "dead", "error": "no answer"})),
        ("/jobs/moved", json!({"topic": "failed", "dead_from": "u"})),
        ("/schedules/daily", json!({"cron": "0 9 * * *", "paused": true})),
    ] {
        let shown = server.get_ok(path).await;
        for (field, value) in fields.as_object().expect("fields") {
            assert_eq!(shown[field], *value, "{path}: {field}");
        }
    }
    let tried = server.get_ok("/jobs/tried").await;
    assert_eq!(tried["history"][0]["error"], "try later");

    let change = crate::support::http::client().patch(format!("{}/jobs/delayed", server.base));
    let change = change.json(&json!({"max_attempts": 7})).send().await.expect("an answer");
    assert_eq!(change.status(), 200);
    let held = String::from_utf8(fixture(reservation)).expect("text");
    let finish = json!({"reservation": held.trim()});
    server.post_ok("/jobs/held/finish", finish).await;
    server.post_ok("/jobs/dead/kick", json!({})).await;
    server.kill();

    let server = Process::start(dir, &arguments).await;
    assert_eq!(server.get_ok("/jobs/delayed").await["max_attempts"], json!(7));
    let popped = server.get_ok("/topics/t/pop?count=10").await;
    let popped = popped["jobs"].as_array().expect("jobs");
    let mut ids: Vec<&str> = popped.iter().filter_map(|job| job["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["dead", "long", "standard"]);
    let long = popped.iter().find(|job| job["id"] == "long").expect("the job with the long body");
    assert_eq!(long["body"], json!("x".repeat(9_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_store_of_this_schema_keeps_working() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(dir.path().join("data")).expect("made");
    fs::write(dir.path().join("data/jobs.db"), fixture("jobs.db")).expect("written");
    assert_store_works(dir.path(), "file:./data", "reservation.files").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_store_of_this_schema_keeps_working() {
    let (dir, redis) = (tempfile::tempdir().expect("a temporary folder"), redis());
    assert_store_works(dir.path(), &redis.url(), "reservation.redis").await;
}
