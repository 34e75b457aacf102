//! Attempts of a job and names of consumers in requests and answers.

use crate::api::prelude::*;

async fn release(server: &Server, popped: &Value, error: &str) {
    let request = with(&held(popped), json!({"delay": 0, "error": error}));
    server.act(id_of(popped), "release", request).await.ok(200);
}

async fn pop(server: &Server, query: &str) -> Value {
    let mut popped = server.pop(&format!("t/pop?{query}")).await;
    assert_eq!(popped.len(), 1, "{query}");
    popped.remove(0)
}

pub async fn a_job_shows_its_attempts_with_the_running_one_last(server: Server) {
    server.put(r#"{"topic":"t","id":"a","finished_retention":"1h"}"#).await;
    assert_eq!(server.job("a").await["history"], json!([]));
    release(&server, &pop(&server, "").await, "no answer").await;
    let popped = pop(&server, "consumer=worker-1@host/7").await;
    let job = server.job("a").await;
    assert_eq!(job["consumer"], "worker-1@host/7");
    let [first, running] = &job["history"].as_array().expect("attempts")[..] else {
        panic!("{job}")
    };
    assert_shows(first, json!({"attempt": 1, "outcome": "released", "error": "no answer"}));
    assert!(first["started_at"].is_string() && first["ended_at"].is_string(), "{first}");
    assert!(first.get("consumer").is_none(), "{first}");
    assert_shows(running, json!({"attempt": 2, "consumer": job["consumer"]}));
    assert!(running["started_at"].is_string(), "{running}");
    let ends = ["ended_at", "outcome"].map(|field| running.get(field).cloned());
    assert_eq!(ends, [Some(Value::Null), Some(Value::Null)]);
    server.act("a", "finish", held(&popped)).await.is_done();
    let job = server.get("/jobs/a?wait=1s").await.ok(200);
    let ended = json!({"outcome": "finished", "ended_at": job["finished_at"]});
    assert_eq!(job["history"][1], with(running, ended));
    assert!(job.get("consumer").is_none(), "{job}");
    let page = server.get("/topics/t/jobs?state=finished").await.ok(200);
    assert!(page["jobs"][0].get("history").is_none(), "{page}");
}

pub async fn a_shown_history_can_be_sent_back_and_not_changed(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    release(&server, &pop(&server, "consumer=w").await, "x").await;
    let job = server.job("a").await;
    let sent_back = with(&job, json!({"delay": "1h", "due_at": null}));
    assert_eq!(server.patch("a", sent_back).await.ok(200)["history"], job["history"]);
    for (field, value) in [("history", json!([])), ("consumer", json!("w"))] {
        server.patch("a", json!({"delay": "1h", field: value})).await.invalid(field);
    }
}
