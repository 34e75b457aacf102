//! Stores that an earlier build of this schema has created. `schema_6/` contains a file store and
//! the Redis commands that recreate a Redis store; its README lists the jobs in each. When a schema
//! gets a successor, these stores test its upgrade.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use serde_json::{Value, json};

use crate::support::{Redis, process::Process};

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

async fn get(server: &Process, path: &str) -> Value {
    let (status, answer) = server.get(path).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

async fn post(server: &Process, path: &str, body: Value, expected: u16) -> Value {
    let (status, answer) = server.post(path, body).await.expect("an answer");
    assert_eq!(status, expected, "{path}: {answer}");
    answer
}

/// Asserts that every job is as it was put, its reservation is valid, and calls on it succeed.
async fn assert_store_works(dir: &Path, store: &str, reservation: &str) {
    let arguments = ["--store", store];
    let mut server = Process::start(dir, &arguments).await;
    let delayed = get(&server, "/jobs/delayed").await;
    assert_eq!(delayed["body"], json!({"order": 4711}));
    assert_eq!((&delayed["ttr"], &delayed["max_attempts"]), (&json!(30), &json!(3)));
    assert_eq!((&delayed["backoff"], &delayed["priority"]), (&json!([0, 120]), &json!(9)));
    assert_eq!(delayed["headers"], json!({"X-Kind": "a"}));
    assert_eq!(delayed["due_at"], json!("2035-01-01T00:00:00.000Z"));
    assert_eq!(delayed["expires_at"], json!("2035-01-02T00:00:00.000Z"));
    let tried = get(&server, "/jobs/tried").await;
    assert_eq!((&tried["state"], &tried["attempt"]), (&json!("delayed"), &json!(1)));
    assert_eq!(tried["history"][0]["error"], json!("try later"));
    let dead = get(&server, "/jobs/dead").await;
    assert_eq!((&dead["state"], &dead["error"]), (&json!("dead"), &json!("no answer")));
    let moved = get(&server, "/jobs/moved").await;
    assert_eq!((&moved["topic"], &moved["dead_from"]), (&json!("failed"), &json!("u")));
    let schedule = get(&server, "/schedules/daily").await;
    assert_eq!((&schedule["cron"], &schedule["paused"]), (&json!("0 9 * * *"), &json!(true)));

    let change = crate::support::http::client().patch(format!("{}/jobs/delayed", server.base));
    let change = change.json(&json!({"max_attempts": 7})).send().await.expect("an answer");
    assert_eq!(change.status(), 200);
    let held = String::from_utf8(fixture(reservation)).expect("text");
    let finish = json!({"reservation": held.trim()});
    let url = format!("{}/jobs/held/finish", server.base);
    let finished =
        crate::support::http::client().post(url).json(&finish).send().await.expect("an answer");
    assert_eq!(finished.status(), 204);
    post(&server, "/jobs/dead/kick", json!({}), 200).await;
    server.kill();

    let server = Process::start(dir, &arguments).await;
    assert_eq!(get(&server, "/jobs/delayed").await["max_attempts"], json!(7));
    let popped = get(&server, "/topics/t/pop?count=10").await;
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
