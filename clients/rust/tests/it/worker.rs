//! The loops of a worker, on the fake and on a server that fails. The clock of tokio is paused:
//! it jumps to the next timer when nothing else can run.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use delay_queue_client::{BoxError, Error, Job, State, Worker, fake::Fake};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::stub::{Answer, Stub};

const TTR: Duration = Duration::from_secs(60);

/// Events of handlers, in their order.
#[derive(Clone, Default)]
struct Log {
    events: Arc<Mutex<Vec<String>>>,
    changed: Arc<Notify>,
}

impl Log {
    fn push(&self, event: String) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_one();
    }

    async fn has(&self, event: &str) {
        while !self.events.lock().unwrap().iter().any(|other| other == event) {
            self.changed.notified().await;
        }
    }
}

/// Writes to the log when the future of a handler is dropped before its end.
struct Running(Log, u32);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.push(format!("dropped {}", self.1));
    }
}

/// Returns a worker whose handler never ends in its first attempt.
fn stuck_at_first(fake: &Fake, log: &Log) -> Worker {
    let log = log.clone();
    Worker::new(fake.queue()).on("a", move |job: Job<Value>| {
        let log = log.clone();
        async move {
            let running = Running(log.clone(), job.attempt);
            log.push(format!("started {}", job.attempt));
            if job.attempt == 1 {
                std::future::pending::<()>().await;
            }
            drop(running);
            Ok::<_, BoxError>(())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_lost_reservation_drops_the_handler() {
    let (fake, log) = (Fake::new(), Log::default());
    fake.queue().put("a", &1).id("1").await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(stuck_at_first(&fake, &log).concurrency(1).run_until(stopped));
    log.has("started 1").await;
    let started = tokio::time::Instant::now();
    fake.advance(TTR);
    log.has("dropped 1").await;
    // The first touch, at a third of the TTR, was refused.
    assert!(started.elapsed() < TTR / 2);
    // The slot is free again.
    log.has("dropped 2").await;
    while fake.queue().get("1").await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    drop(stop);
    run.await.unwrap().unwrap();
    assert_eq!(log.events.lock().unwrap().join(", "), "started 1, dropped 1, started 2, dropped 2");
}

#[tokio::test(start_paused = true)]
async fn touches_hold_a_job_far_beyond_its_ttr() {
    let fake = Fake::new();
    fake.queue().put("a", &1).id("1").await.unwrap();
    let clock = fake.clone();
    let worker = Worker::new(fake.queue()).on("a", move |_: Job<u32>| {
        let clock = clock.clone();
        async move {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                clock.advance(Duration::from_secs(10));
            }
            Ok::<_, BoxError>(())
        }
    });
    let queue = fake.queue();
    worker
        .run_until(async {
            // Longer than the handler takes.
            for _ in 0..1_000 {
                if queue.get("1").await.unwrap().is_none() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await
        .unwrap();
    assert!(fake.queue().get("1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_a_job_is_given_back_uncounted() {
    let (fake, log) = (Fake::new(), Log::default());
    fake.queue().put("a", &1).id("1").max_attempts(1).await.unwrap();
    let worker = stuck_at_first(&fake, &log);
    worker.run_until(log.has("started 1")).await.unwrap();
    assert_eq!(log.events.lock().unwrap().join(", "), "started 1, dropped 1");
    let job = fake.queue().get("1").await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (State::Ready, 0));
}

#[tokio::test]
async fn a_refused_first_pop_ends_the_worker() {
    let body = json!({"status": 401, "code": "unauthenticated", "detail": "x", "applied": "no"});
    let stub = Stub::start(move |_, _| Answer::Send(401, body.to_string())).await;
    let worker = Worker::new(stub.queue()).on("a", async |_: Job<u32>| Ok::<_, BoxError>(()));
    let error = worker.run_until(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.code(), Some("unauthenticated"));
    assert!(error.to_string().ends_with("see Queue::token"), "{error}");
}

#[tokio::test]
async fn a_worker_without_handlers_does_not_run() {
    let error = Worker::new(Fake::new().queue()).run_until(async {}).await.unwrap_err();
    assert!(matches!(error, Error::Usage { field: "topics", .. }), "{error:?}");
}

fn popped() -> String {
    json!({"jobs": [{
        "id": "1", "topic": "a", "body": 7, "attempt": 1, "max_attempts": 20, "ttr": 60,
        "due_at": "2026-01-31T12:00:00.000Z", "created_at": "2026-01-31T12:00:00.000Z",
        "reservation": "r", "reserved_until": "2026-01-31T12:01:00.000Z",
    }]})
    .to_string()
}

#[tokio::test]
async fn a_finish_is_repeated_after_a_lost_answer() {
    let (finished, is_finished) = oneshot::channel();
    let finished = Mutex::new(Some(finished));
    let pops = Mutex::new(vec![popped()]);
    let finishes = Mutex::new(0);
    let stub = Stub::start(move |_, request| {
        if request.line.contains("/pop?") {
            return match pops.lock().unwrap().pop() {
                Some(jobs) => Answer::Send(200, jobs),
                None => Answer::Hang,
            };
        }
        let mut finishes = finishes.lock().unwrap();
        *finishes += 1;
        if *finishes == 1 {
            return Answer::Close;
        }
        if let Some(finished) = finished.lock().unwrap().take() {
            finished.send(()).unwrap();
        }
        let results =
            r#"{"results":[{"id":"1","status":404,"code":"job_not_found","applied":"no"}]}"#;
        Answer::Send(200, results.to_owned())
    })
    .await;
    let worker =
        Worker::new(stub.queue()).on("a", async |job: Job<u32>| Ok::<_, BoxError>(job.body));
    worker.run_until(is_finished).await.unwrap();
    let requests = stub.requests();
    let finishes: Vec<&Value> = requests
        .iter()
        .filter(|request| request.line == "POST /v1/batch/finish")
        .map(|request| &request.body["jobs"])
        .collect();
    let expected = json!([{"id": "1", "reservation": "r", "result": 7}]);
    assert_eq!(finishes, [&expected, &expected]);
}
