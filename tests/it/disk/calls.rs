//! Calls of tests to a server whose disk is full or fails.

use crate::disk::prelude::*;

pub async fn post(server: &Process, path: &str, body: Value) -> (u16, Value) {
    server.post(path, body).await.expect("an answer")
}

/// Sends a batch. Asserts that each job gets this status.
pub async fn assert_all(status: u16, server: &Process, path: &str, jobs: &[Value]) {
    let (whole, answer) = post(server, path, json!({"jobs": jobs})).await;
    assert_eq!(whole, 200, "{path}: {answer}");
    let results = answer["results"].as_array().expect("results");
    for result in results {
        assert_eq!(result["status"], status, "{path}: {result}");
    }
    assert_eq!(results.len(), jobs.len());
}

/// Puts jobs with bodies of this length; [`id`] returns their ids.
pub async fn put_all(server: &Process, topic: &str, count: usize, length: usize) {
    let job = |n| json!({"topic": topic, "id": id(topic, n), "body": "x".repeat(length)});
    for first in (0..count).step_by(60) {
        let jobs: Vec<_> = (first..count.min(first + 60)).map(job).collect();
        assert_all(201, server, "/batch/jobs", &jobs).await;
    }
}

/// Ids are in the order of their numbers.
pub fn id(topic: &str, number: usize) -> String {
    format!("{topic}:{number:04}")
}

/// Puts a job with a new id. Returns the status.
pub async fn put_one(server: &Process) -> u16 {
    post(server, "/jobs", json!({"topic": "small"})).await.0
}

pub async fn until_puts_are_accepted(server: &Process) {
    until(|| put_one(server), |status| *status == 201).await;
}

pub async fn delete_all(server: &Process, ids: impl IntoIterator<Item = String>) {
    let jobs: Vec<_> = ids.into_iter().map(|id| json!({"id": id})).collect();
    assert_all(200, server, "/batch/delete", &jobs).await;
}

/// Pops jobs for an hour. Returns their ids and reservations.
pub async fn pop(server: &Process, topic: &str, count: usize) -> Vec<Value> {
    let (status, answer) = server.get(&format!("/topics/{topic}/pop?ttr=1h&count={count}")).await;
    assert_eq!(status, 200, "{answer}");
    holds(&answer)
}

/// Returns the ids and reservations of popped jobs.
pub fn holds(popped: &Value) -> Vec<Value> {
    let jobs = popped["jobs"].as_array().into_iter().flatten();
    jobs.map(|job| json!({"id": job["id"], "reservation": job["reservation"]})).collect()
}

/// Releases jobs with an error text and a delay in seconds.
pub async fn release_all(server: &Process, held: &[Value], delay: u64) {
    let release = |job: &Value| {
        let (id, reservation, error) = (&job["id"], &job["reservation"], "e".repeat(TEXT));
        json!({"id": id, "reservation": reservation, "error": error, "delay": delay})
    };
    let releases: Vec<_> = held.iter().map(release).collect();
    assert_all(200, server, "/batch/release", &releases).await;
}

/// Length of bodies and of error texts.
pub const TEXT: usize = 300;

pub async fn readiness(server: &Process) -> (u16, String) {
    let (status, answer) = server.get("/readyz").await;
    (status, answer.to_string())
}
