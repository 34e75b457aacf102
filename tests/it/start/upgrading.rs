//! Upgrades from schema 4. `schema_4/` contains a file store and the Redis commands that recreate a
//! Redis store; its README lists the jobs in each.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use serde_json::{Value, json};

use crate::{
    start::{output, outputs::one_line},
    support::{Redis, free_port, process::Process},
};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/start/schema_4").join(name);
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

async fn get(server: &Process, id: &str) -> Value {
    let (status, job) = server.get(&format!("/jobs/{id}")).await;
    assert_eq!(status, 200, "{job}");
    job
}

async fn post(server: &Process, path: &str, body: Value, expected: u16) -> Value {
    let (status, answer) = server.post(path, body).await.expect("an answer");
    assert_eq!(status, expected, "{path}: {answer}");
    answer
}

/// Asserts that every job is unchanged, its reservation is valid, and calls on it succeed.
async fn assert_store_keeps_working(dir: &Path, store: &str, reservation: &str) {
    let arguments = ["--store", store];
    let mut server = Process::start(dir, &arguments).await;
    let delayed = get(&server, "delayed").await;
    assert_eq!(delayed["body"], json!({"order": 4711}));
    assert_eq!((&delayed["ttr"], &delayed["max_attempts"]), (&json!(30), &json!(3)));
    assert_eq!(delayed["backoff"], json!([0, 120]));
    assert_eq!(delayed["traceparent"], json!(TRACEPARENT));
    assert_eq!(delayed["due_at"], json!("2035-01-01T00:00:00.000Z"));
    let tried = get(&server, "tried").await;
    assert_eq!((&tried["state"], &tried["attempt"]), (&json!("delayed"), &json!(1)));
    let dead = get(&server, "dead").await;
    assert_eq!((&dead["state"], &dead["error"]), (&json!("dead"), &json!("no answer")));
    assert_eq!(get(&server, "standard").await["max_attempts"], json!(20));

    // Changed records have the new format.
    let expected = json!({"order": 4712});
    let change = json!({"body": expected, "max_attempts": 7, "backoff": null});
    let changed = reqwest::Client::new().patch(format!("{}/jobs/delayed", server.base));
    let changed = changed.json(&change).send().await.expect("an answer");
    assert_eq!(changed.status(), 200);
    let held = String::from_utf8(fixture(reservation)).expect("text");
    let finish = json!({"reservation": held.trim()});
    let url = format!("{}/jobs/held/finish", server.base);
    let finished = reqwest::Client::new().post(url).json(&finish).send().await.expect("an answer");
    assert_eq!(finished.status(), 204);
    assert_eq!(server.get("/jobs/held").await.0, 404);
    post(&server, "/jobs/dead/kick", json!({}), 200).await;
    server.kill();

    let server = Process::start(dir, &arguments).await;
    let delayed = get(&server, "delayed").await;
    assert_eq!((&delayed["body"], &delayed["max_attempts"]), (&expected, &json!(7)));
    assert_eq!((&delayed["backoff"], &delayed["ttr"]), (&Value::Null, &json!(30)));
    assert_eq!(delayed["traceparent"], json!(TRACEPARENT));
    let (_, popped) = server.get("/topics/t/pop?count=10").await;
    let popped = popped["jobs"].as_array().expect("jobs");
    let mut ids: Vec<&str> = popped.iter().filter_map(|job| job["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["dead", "long", "standard"]);
    let long = popped.iter().find(|job| job["id"] == "long").expect("the job with the long body");
    assert_eq!(long["body"], json!("x".repeat(9_000)));
    for job in popped {
        let (id, held) = (job["id"].as_str().expect("an id"), &job["reservation"]);
        let released = json!({"reservation": held, "delay": "1h"});
        post(&server, &format!("/jobs/{id}/release"), released, 200).await;
    }
    let put = json!({"id": "new", "topic": "t", "ttr": "5s"});
    post(&server, "/jobs", put, 201).await;
    assert_eq!(get(&server, "new").await["ttr"], json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_store_of_schema_4_keeps_working() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(dir.path().join("data")).expect("made");
    fs::write(dir.path().join("data/jobs.db"), fixture("jobs.db")).expect("written");
    assert_store_keeps_working(dir.path(), "file:./data", "reservation.files").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_store_of_schema_4_keeps_working() {
    let (dir, redis) = (tempfile::tempdir().expect("a temporary folder"), redis());
    assert_store_keeps_working(dir.path(), &redis.url(), "reservation.redis").await;
    let layout = redis.command("GET dq:layout").expect("an answer");
    assert!(layout.contains("schema=5"), "{layout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_not_upgraded_while_an_older_server_uses_it() {
    let (dir, redis) = (tempfile::tempdir().expect("a temporary folder"), redis());
    let mut older = TcpStream::connect(("127.0.0.1", redis.port())).expect("connected");
    older.write_all(b"SSUBSCRIBE {dq:0fb}:hints:0\r\n").expect("sent");
    assert!(older.read(&mut [0; 100]).expect("an answer") > 0);
    let listen = format!("127.0.0.1:{}", free_port());
    let refused = output(dir.path(), &["--listen", &listen, "--store", &redis.url()]);
    one_line(&refused, &["servers of an older version", "stop all of them"]);
    assert!(redis.command("GET dq:layout").expect("an answer").contains("schema=4"));
    drop(older);
}
