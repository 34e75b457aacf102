//! `GET /jobs/{id}?wait=`, which waits for the end of a job.

use crate::api::prelude::*;

/// Maximum duration of a wait that ends because of an event, well before its timeout of 60 seconds.
pub const WELL_BEFORE_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a request that waits for the end of a job.
pub async fn wait(server: &Arc<Server>, id: &str) -> JoinHandle<(Answer, Duration)> {
    let (server, path) = (Arc::clone(server), format!("/jobs/{id}?wait=60s"));
    let waiting = tokio::spawn(async move {
        let began = Stopwatch::start();
        (server.get(&path).await, began.elapsed())
    });
    pass(Duration::from_millis(200)).await; // until the wait has probably begun; one that begins later ends too
    waiting
}

/// Returns the answer of a wait that must have ended early.
pub async fn ended_early(waiting: JoinHandle<(Answer, Duration)>) -> Answer {
    let (answer, took) = waiting.await.expect("joined");
    assert!(took < scaled(WELL_BEFORE_TIMEOUT), "the wait ended only after {took:?}: {answer:?}");
    answer
}

pub async fn a_wait_for_a_job_ends_when_it_is_dead_or_gone(server: Server) {
    let server = Arc::new(server);
    for (act, gone) in [("finish", true), ("delete", true), ("bury", false), ("release", false)] {
        let put = json!({"topic": "t", "id": act, "max_attempts": 1});
        server.put(put).await;
        let held = server.hold("t").await;
        let waiting = wait(&server, act).await;
        let done = match act {
            "delete" => server.delete("/jobs/delete").await,
            _ => server.act(act, act, held).await,
        };
        assert!(done.status.is_success(), "{act}: {done:?}");
        let answer = ended_early(waiting).await;
        if gone {
            answer.problem(404, "job_not_found");
        } else {
            assert_eq!(answer.ok(200)["state"], "dead", "{act}");
        }
    }
}

pub async fn a_wait_for_a_job_ends_by_its_last_ttr_or_a_purge(server: Server) {
    let server = Arc::new(server);
    let put = json!({"topic": "t", "id": "slow", "max_attempts": 1, "ttr": 1});
    server.put(put).await;
    server.pop_one("t").await;
    assert_eq!(ended_early(wait(&server, "slow").await).await.ok(200)["state"], "dead");

    server.put(r#"{"topic":"p","id":"purged","delay":"1h"}"#).await;
    let waiting = wait(&server, "purged").await;
    server.delete("/topics/p/jobs").await.ok(200);
    ended_early(waiting).await.problem(404, "job_not_found");
}

pub async fn a_wait_returns_the_job_in_its_final_state(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"400ms"}"#).await;
    let began = Instant::now();
    let answer = server.get("/jobs/a?wait=900ms").await;
    assert!(began.elapsed() >= Duration::from_millis(900));
    assert_eq!(answer.ok(200)["state"], "ready");
    for path in ["/jobs/a?wait=0", "/jobs/a?wait=1ms", "/jobs/none?wait=1s", "/jobs/a?wait=61s"] {
        assert_eq!(server.get(path).await.headers["cache-control"], "no-store", "{path}");
    }
    let began = Stopwatch::start();
    server.get("/jobs/none?wait=60s").await.problem(404, "job_not_found");
    assert!(
        began.elapsed() < scaled(WELL_BEFORE_TIMEOUT),
        "the request waited although the job had ended"
    );
}

pub async fn a_stopping_server_ends_waits_for_jobs(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let mut server = server;
    let request = server.request(Method::GET, "/jobs/a?wait=60s");
    let waiting = tokio::spawn(async move {
        let began = Stopwatch::start();
        (Server::send(request).await, began.elapsed())
    });
    pass(Duration::from_millis(500)).await;
    server.begin_to_stop();
    let (answer, took) = waiting.await.expect("joined");
    assert!(took < scaled(WELL_BEFORE_TIMEOUT), "{took:?}");
    assert_eq!(answer.ok(200)["state"], "delayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_by_a_finish_on_another_server() {
    let one = Arc::new(Server::on_redis().await);
    let other = one.beside().await;
    one.put(r#"{"topic":"t","id":"a"}"#).await;
    let held = other.hold("t").await;
    let waiting = wait(&one, "a").await;
    other.post("/jobs/a/finish", held).await.is_done();
    ended_early(waiting).await.problem(404, "job_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_waiting_requests_of_a_caller_is_limited() {
    let server = Server::on_file_with(|settings| settings.limits.waiting_pops = 1).await;
    let server = Arc::new(server);
    server.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let waiting = wait(&server, "a").await;
    eventually!(server.get("/jobs/a?wait=10ms").await.status == 429, "no second wait was refused");
    server.job("a").await;
    server.delete("/jobs/a").await.ok(200);
    ended_early(waiting).await.problem(404, "job_not_found");
}
