//! Puts of concurrent callers, which share requests.

use std::{
    collections::BTreeMap,
    future::IntoFuture,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use delay_queue_client::{Error, Put, PutJob, Queue};
use serde_json::{Value, json};

use crate::stub::{Answer, Request, Stub};

type Future = Pin<Box<dyn std::future::Future<Output = Result<PutJob, Error>> + Send>>;

fn job(put: &Value) -> Value {
    let due_at = "2026-01-31T12:00:00.000Z";
    json!({"id": put["id"], "topic": "t", "state": "ready", "due_at": due_at, "status": 201})
}

/// Accepts all puts of a request.
fn accept(request: &Request) -> Answer {
    match request.body["jobs"].as_array() {
        None => Answer::Send(201, job(&request.body).to_string()),
        Some(jobs) => {
            let results: Vec<Value> = jobs.iter().map(job).collect();
            Answer::Send(200, json!({"results": results}).to_string())
        }
    }
}

/// Polls a put once, so that it is sent or waits for the request under way.
fn begin(put: Put) -> Future {
    let mut future = put.into_future();
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    future
}

fn put(queue: &Queue, id: &str) -> Future {
    begin(queue.put("t", &()).id(id))
}

/// Returns the ids of each request.
fn sent(stub: &Stub) -> Vec<Vec<String>> {
    let ids = |request: &Request| match request.body["jobs"].as_array() {
        None => vec![request.body["id"].as_str().unwrap().to_owned()],
        Some(jobs) => jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect(),
    };
    stub.requests().iter().map(ids).collect()
}

#[tokio::test]
async fn a_put_that_is_dropped_while_it_waits_is_not_sent() {
    let stub = Stub::start(|_, request| accept(request)).await;
    let queue = stub.queue();
    let [first, dropped, third] = ["a", "b", "c"].map(|id| put(&queue, id));
    drop(dropped);
    assert_eq!(first.await.unwrap().id, "a");
    assert_eq!(third.await.unwrap().id, "c");
    assert_eq!(sent(&stub), [["a"], ["c"]]);
}

#[tokio::test]
async fn a_shared_request_goes_on_when_one_of_its_puts_is_dropped() {
    let dropped = Arc::new(Mutex::new(None));
    let under_way = Arc::clone(&dropped);
    let stub = Stub::start(move |number, request| {
        if number == 1 {
            drop(under_way.lock().unwrap().take().unwrap());
        }
        accept(request)
    })
    .await;
    let queue = stub.queue();
    let first = put(&queue, "a");
    *dropped.lock().unwrap() = Some(put(&queue, "b"));
    let third = put(&queue, "c");
    assert_eq!(first.await.unwrap().id, "a");
    assert_eq!(third.await.unwrap().id, "c");
    assert_eq!(sent(&stub), [vec!["a"], vec!["b", "c"]]);
}

#[tokio::test]
async fn waiting_puts_are_sent_when_the_put_under_way_is_dropped() {
    let stub = Stub::start(|number, request| match number {
        0 => Answer::Hang,
        _ => accept(request),
    })
    .await;
    let queue = stub.queue();
    let [first, second] = ["a", "b"].map(|id| put(&queue, id));
    while stub.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(first);
    // Sooner than the time-out of the first request.
    let second = tokio::time::timeout(Duration::from_secs(5), second).await.unwrap();
    assert_eq!(second.unwrap().id, "b");
}

#[tokio::test]
async fn a_put_does_not_wait_until_another_is_polled() {
    let stub = Stub::start(|_, request| accept(request)).await;
    let queue = stub.queue();
    let [first, second] = ["a", "b"].map(|id| put(&queue, id));
    assert_eq!(second.await.unwrap().id, "b");
    assert_eq!(first.await.unwrap().id, "a");
}

#[test]
fn puts_go_on_when_the_runtime_of_another_put_ends() {
    let [runtime, other] = [(); 2].map(|()| tokio::runtime::Runtime::new().unwrap());
    let stub = runtime.block_on(Stub::start(|number, request| match number {
        0 => Answer::Hang,
        _ => accept(request),
    }));
    let queue = stub.queue();
    let first = {
        let _other = other.enter();
        put(&queue, "a")
    };
    while stub.requests().is_empty() {
        std::thread::yield_now();
    }
    drop(other);
    assert_eq!(runtime.block_on(queue.put("t", &()).id("b").into_future()).unwrap().id, "b");
    assert_eq!(runtime.block_on(first).unwrap().id, "a");
}

#[tokio::test]
async fn each_put_has_the_refusal_of_a_single_put() {
    let stub = Stub::start(|_, request| match request.body["jobs"].as_array() {
        None => accept(request),
        Some(_) => {
            let refused = json!({"status": 422, "code": "invalid_field", "field": "jobs[1].backoff.max",
                "detail": "`jobs[1].backoff.max` is wrong", "applied": "no"});
            let results = json!({"results": [job(&request.body["jobs"][0]), refused]});
            Answer::Send(200, results.to_string())
        }
    })
    .await;
    let queue = stub.queue();
    let [first, second, third] = ["a", "b", "c"].map(|id| put(&queue, id));
    assert!(first.await.is_ok() && second.await.is_ok());
    let error = third.await.unwrap_err();
    let refused = error.refused().unwrap();
    assert_eq!(refused.field.as_deref(), Some("backoff.max"));
    assert_eq!(refused.detail, "`backoff.max` is wrong");
}

#[tokio::test]
async fn puts_whose_batch_is_refused_are_sent_one_by_one() {
    for (status, body) in [(413, r#"{"code":"body_too_large","applied":"no"}"#), (404, "<html>")] {
        let stub = Stub::start(move |_, request| match request.body["id"].as_str() {
            None | Some("b") => Answer::Send(status, body.to_owned()),
            _ => accept(request),
        })
        .await;
        let queue = stub.queue();
        let [first, second, third] = ["a", "b", "c"].map(|id| put(&queue, id));
        assert!(first.await.is_ok());
        assert!(second.await.is_err());
        assert!(third.await.is_ok());
        assert_eq!(sent(&stub), [vec!["a"], vec!["b", "c"], vec!["b"], vec!["c"]]);
    }
}

#[tokio::test]
async fn a_refusal_of_the_token_is_that_of_each_put() {
    let stub = Stub::start(|_, request| match request.body["jobs"].as_array() {
        None => accept(request),
        Some(_) => Answer::Send(401, r#"{"code":"unauthenticated","applied":"no"}"#.to_owned()),
    })
    .await;
    let queue = stub.queue();
    let [first, second, third] = ["a", "b", "c"].map(|id| put(&queue, id));
    assert!(first.await.is_ok());
    for put in [second, third] {
        assert_eq!(put.await.unwrap_err().refused().unwrap().status, 401);
    }
    assert_eq!(stub.requests().len(), 2);
}

#[tokio::test]
async fn puts_with_different_tokens_share_no_request() {
    let stub = Stub::start(|_, request| accept(request)).await;
    let queue = stub.queue();
    let other = queue.clone().token("dq_other").unwrap();
    let puts = [&queue, &other, &queue, &other].map(|queue| put(queue, "a"));
    for put in puts {
        put.await.unwrap();
    }
    assert_eq!(sent(&stub), [["a"]; 4]);
}

#[tokio::test]
async fn a_request_has_a_thousand_puts_and_a_mebibyte_at_most() {
    let stub = Stub::start(|_, request| accept(request)).await;
    let queue = stub.queue();
    let (small, large) = (String::new(), "x".repeat(400_000));
    let mut sizes = BTreeMap::new();
    for (name, bodies) in [("jobs", vec![&small; 1_101]), ("bytes", vec![&large; 4])] {
        let before = stub.requests().len();
        let puts: Vec<Future> = bodies.iter().map(|body| begin(queue.put("t", body))).collect();
        for put in puts {
            put.await.unwrap();
        }
        let requests = sent(&stub).split_off(before);
        sizes.insert(name, requests.iter().map(Vec::len).collect::<Vec<_>>());
    }
    assert_eq!(sizes["jobs"], [1, 1_000, 100]);
    assert_eq!(sizes["bytes"], [1, 2, 1]);
}
