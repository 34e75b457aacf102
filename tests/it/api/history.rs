//! Attempts of a job and names of consumers in requests and answers.

use crate::api::prelude::*;

async fn release(server: &Server, popped: &Value, error: &str) {
    let request = json!({"reservation": reservation_of(popped), "delay": 0, "error": error});
    let path = format!("/jobs/{}/release", popped["id"].as_str().expect("an id"));
    server.post(&path, request.to_string()).await.ok(200);
}

async fn pop(server: &Server, query: &str) -> Value {
    let mut popped = server.pop(&format!("t/pop?{query}")).await;
    assert_eq!(popped.len(), 1, "{query}");
    popped.remove(0)
}

pub async fn a_job_shows_its_attempts_with_the_running_one_last(server: Server) {
    server.put(r#"{"topic":"t","id":"a","finished_retention":"1h"}"#).await;
    assert_eq!(server.get("/jobs/a").await.ok(200)["history"], json!([]));
    release(&server, &pop(&server, "").await, "no answer").await;
    let popped = pop(&server, "consumer=worker-1@host/7").await;
    let job = server.get("/jobs/a").await.ok(200);
    assert_eq!(job["consumer"], "worker-1@host/7");
    let [first, running] = &job["history"].as_array().expect("attempts")[..] else {
        panic!("{job}")
    };
    assert_eq!((&first["attempt"], &first["outcome"]), (&json!(1), &json!("released")));
    assert_eq!(first["error"], "no answer");
    assert!(first["started_at"].is_string() && first["ended_at"].is_string(), "{first}");
    assert!(first.get("consumer").is_none(), "{first}");
    assert_eq!((&running["attempt"], &running["consumer"]), (&json!(2), &job["consumer"]));
    assert!(running["started_at"].is_string(), "{running}");
    let ends = ["ended_at", "outcome"].map(|field| running.get(field).cloned());
    assert_eq!(ends, [Some(Value::Null), Some(Value::Null)]);
    let request = json!({"reservation": reservation_of(&popped)}).to_string();
    assert_eq!(server.post("/jobs/a/finish", request).await.status, 204);
    let job = server.get("/jobs/a?wait=1s").await.ok(200);
    let last = &job["history"][1];
    assert_eq!((&last["outcome"], &last["consumer"]), (&json!("finished"), &running["consumer"]));
    assert_eq!(last["started_at"], running["started_at"]);
    assert!(job.get("consumer").is_none(), "{job}");
    let page = server.get("/topics/t/jobs?state=finished").await.ok(200);
    assert!(page["jobs"][0].get("history").is_none(), "{page}");
}

pub async fn ten_attempts_are_shown_with_the_running_one(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    for _ in 0..11 {
        release(&server, &pop(&server, "").await, &"é".repeat(200)).await;
    }
    pop(&server, "").await;
    let job = server.get("/jobs/a").await.ok(200);
    let history = job["history"].as_array().expect("attempts");
    let numbers: Vec<_> = history.iter().map(|past| past["attempt"].as_u64()).collect();
    assert_eq!(numbers, (3..=12).map(Some).collect::<Vec<_>>());
    assert_eq!(history[0]["error"].as_str().map(str::len), Some(256));
    assert_eq!(job["error"].as_str().map(str::len), Some(400));
}

pub async fn a_shown_history_can_be_sent_back_and_not_changed(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    release(&server, &pop(&server, "consumer=w").await, "x").await;
    let mut job = server.get("/jobs/a").await.ok(200);
    let object = job.as_object_mut().expect("an object");
    object.insert("delay".to_owned(), json!("1h"));
    object.remove("due_at");
    let changed = server.call(Method::PATCH, "/jobs/a", job.to_string()).await.ok(200);
    assert_eq!(changed["history"], job["history"]);
    for (field, value) in [("history", json!([])), ("consumer", json!("w"))] {
        let other = json!({"delay": "1h", field: value}).to_string();
        let answer = server.call(Method::PATCH, "/jobs/a", other).await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], field);
    }
}

pub async fn a_bad_name_of_a_consumer_is_refused(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let long = "a".repeat(65);
    let names = ["", " ", "a b", "\u{e4}", "a,b", "a!", "a+b", "a\n", &long];
    for name in names {
        let query: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let in_query = server.get(&format!("/topics/t/pop?consumer={query}")).await;
        let in_body = server.post("/topics/t/pop", json!({"consumer": name}).to_string()).await;
        for answer in [in_query, in_body] {
            let problem = answer.problem(422, "invalid_field");
            assert_eq!(problem["field"], "consumer");
            let detail = problem["detail"].as_str().expect("text");
            let given = format!("{:?}", name.chars().take(40).collect::<String>());
            assert!(detail.contains("1 to 64") && detail.contains(&given), "{detail}");
        }
    }
    for body in [json!({"consumer": 7}), json!({"consumer": ["w"]}), json!({"consumer": {}})] {
        let answer = server.post("/topics/t/pop", body.to_string()).await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], "consumer", "{body}");
    }
    for query in ["consumer=a&consumer=a", "consumre=a"] {
        server.get(&format!("/topics/t/pop?{query}")).await.problem(422, "invalid_field");
    }
    let both = server.post("/topics/t/pop?consumer=a", r#"{"consumer":"a"}"#).await;
    assert_eq!(both.problem(422, "invalid_field")["field"], "consumer");
    assert_eq!(
        server.get("/jobs/a").await.ok(200)["state"],
        "ready",
        "a refused pop has popped a job"
    );
    let none = server.post("/topics/t/pop", r#"{"consumer":null}"#).await.ok(200);
    assert_eq!(none["jobs"][0]["id"], "a");
    assert!(server.get("/jobs/a").await.ok(200).get("consumer").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_cancel_sees_no_history() {
    let server = Server::on_file().await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    release(&server, &pop(&server, "").await, "secret").await;
    let root = server.token("", "root", json!({"admin": ["*"], "read": ["*"]})).await;
    let cancel = server.token(&root, "c", json!({"cancel": ["t"]})).await;
    for (token, is_shown) in [(root, true), (cancel, false)] {
        let request = server.request(Method::GET, "/jobs/a").bearer_auth(token);
        let seen = Server::send(request).await.ok(200);
        assert_eq!(seen.get("history").is_some(), is_shown, "{seen}");
    }
}
