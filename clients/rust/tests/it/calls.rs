//! Calls of producers: repetitions and errors.

use delay_queue_client::{Applied, Error, Queue};
use serde_json::{Value, json};

use crate::stub::{Answer, Stub};

fn put_answer(id: &Value) -> String {
    let due_at = "2026-01-31T12:00:00.000Z";
    json!({"id": id, "topic": "t", "state": "ready", "due_at": due_at}).to_string()
}

fn problem(status: u16, code: &str, applied: &str) -> Answer {
    let body = json!({"status": status, "code": code, "detail": "x", "applied": applied});
    Answer::Send(status, body.to_string())
}

#[tokio::test]
async fn a_batch_repeats_only_the_puts_without_a_result() {
    let stub = Stub::start(|number, request| {
        let result = |job: &Value| match job["topic"].as_str() {
            Some("busy") if number == 0 => {
                json!({"status": 503, "code": "overloaded", "detail": "", "applied": "no"})
            }
            Some("bad") => {
                json!({"status": 422, "code": "invalid_field", "detail": "", "applied": "no"})
            }
            _ => {
                let mut job: Value = serde_json::from_str(&put_answer(&job["id"])).unwrap();
                job["status"] = json!(201);
                job
            }
        };
        let jobs = request.body["jobs"].as_array().unwrap();
        let results: Vec<Value> = jobs.iter().map(result).collect();
        Answer::Send(200, json!({"results": results}).to_string())
    })
    .await;
    let queue = stub.queue();
    let topics = ["good", "busy", "bad"];
    let puts = topics.map(|topic| queue.put(topic, &()).id(topic));
    let results = queue.put_many(puts).await;
    assert_eq!(results[0].as_ref().unwrap().id, "good");
    assert_eq!(results[1].as_ref().unwrap().id, "busy");
    assert_eq!(results[2].as_ref().unwrap_err().code(), Some("invalid_field"));
    let sent: Vec<usize> = stub
        .requests()
        .iter()
        .map(|request| request.body["jobs"].as_array().unwrap().len())
        .collect();
    assert_eq!(sent, [3, 1]);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    for (status, code) in [(409, "job_exists"), (429, "topic_full"), (507, "store_full")] {
        let stub = Stub::start(move |_, _| problem(status, code, "no")).await;
        let error = stub.queue().put("t", &()).await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.applied(), Applied::No);
        assert_eq!(stub.requests().len(), 1);
    }
}

#[test]
fn a_wrong_url_or_token_is_refused_at_once() {
    for url in ["127.0.0.1:9277", "localhost:9277", "ftp://x", "http://a:b@x", "http://x/?a=1", ""]
    {
        let error = Queue::new(url).unwrap_err();
        assert!(matches!(error, Error::Usage { field: "url", .. }), "{url}: {error:?}");
        assert!(!error.to_string().contains("a:b"), "{error}");
    }
    assert!(Queue::new("http://x").unwrap().token("dq_\n").is_err());
    Queue::new("https://shop.example/queue/").unwrap();
}

#[tokio::test]
async fn a_body_without_a_json_form_is_not_sent() {
    let queue = Queue::new("http://127.0.0.1:1").unwrap();
    let body = std::collections::BTreeMap::from([(vec![1], 1)]);
    let error = queue.put("t", &body).await.unwrap_err();
    assert!(matches!(error, Error::Encode { field: "body", .. }), "{error:?}");
}
