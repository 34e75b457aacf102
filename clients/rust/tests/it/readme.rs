//! The program of the README.

use std::{process::Stdio, sync::Mutex};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::oneshot,
};

use crate::stub::{Answer, Stub};

/// Returns the program, which Cargo builds with the tests, in the folder next to theirs.
pub fn program() -> Command {
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples");
    let mut program = Command::new(folder.join("close_unpaid"));
    program.kill_on_drop(true);
    program
}

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!(
        "```rust,no_run\n{}```",
        include_str!("../../examples/close_unpaid.rs")
    )));
}

#[tokio::test]
async fn the_program_of_the_readme_puts_a_job_and_works() {
    let (finished, is_finished) = oneshot::channel();
    let finished = Mutex::new(Some(finished));
    let body = Mutex::new(None);
    let stub = Stub::start(move |_, request| {
        let times = json!("2026-01-31T12:00:00.000Z");
        if request.line == "POST /v1/jobs" {
            assert_eq!(request.body["delay"], 2);
            *body.lock().unwrap() = Some(request.body["body"].clone());
            let job = json!({"id": "close:4711", "topic": "orders", "state": "delayed", "due_at": times});
            return Answer::Send(201, job.to_string());
        }
        if request.line == "POST /v1/batch/finish" {
            finished.lock().unwrap().take().unwrap().send(request.body.clone()).unwrap();
            return Answer::Send(200, r#"{"results":[{"id":"close:4711","status":204}]}"#.to_owned());
        }
        match body.lock().unwrap().take() {
            None => Answer::Hang,
            Some(body) => {
                let job = json!({
                    "id": "close:4711", "topic": "orders", "body": body, "attempt": 1, "max_attempts": 20,
                    "due_at": times, "created_at": times, "ttr": 60, "reservation": "r",
                });
                Answer::Send(200, json!({"jobs": [job]}).to_string())
            }
        }
    })
    .await;
    let mut program =
        program().env("DELAY_QUEUE_URL", &stub.url).stdout(Stdio::piped()).spawn().unwrap();
    let expected = json!({"jobs": [{"id": "close:4711", "reservation": "r"}]});
    assert_eq!(is_finished.await.unwrap(), expected);
    let id = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().await.unwrap().success());
    assert!(program.wait().await.unwrap().success());
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("order 4711 is closed"));
}
