//! Answers to clients about a job with a damaged record.

use crate::api::prelude::*;

const BODY: &str = r#"{"topic":"t","id":"broken","delay":"1h","body":"MARK"}"#;

/// Replaces a part of the job's record on the shared Redis.
fn damage(server: &Server, hash: &str, from: &str, to: &str) {
    let prefix = &server.store.1;
    let script = format!(
        "for _, key in ipairs(redis.call('KEYS', '{{{prefix}:*}}:{hash}')) do \
         local text = redis.call('HGET', key, 'broken') \
         if text then redis.call('HSET', key, 'broken', (string.gsub(text, '{from}', '{to}'))) end \
         end return 0"
    );
    assert_eq!(shared::redis().command(&format!("EVAL \"{script}\" 0")).as_deref(), Some(":0\r\n"));
}

/// Asserts that the job is reported as damaged, does not affect other jobs, and can be deleted.
async fn assert_reported_as_damaged(server: &Server) {
    assert_eq!(server.get("/jobs/broken").await.problem(500, "job_damaged")["applied"], "no");
    server.job("sound").await;
    let page = server.get("/topics/t/jobs?state=delayed").await.ok(200);
    assert_eq!(
        (&page["damaged"][0]["id"], &page["jobs"][0]["id"]),
        (&"broken".into(), &"sound".into())
    );
    server.delete("/jobs/broken").await.ok(200);
    server.get("/jobs/broken").await.problem(404, "job_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_on_redis_is_reported_as_damaged() {
    let server = Server::on_redis().await;
    server.put(BODY).await;
    server.put(r#"{"topic":"t","id":"sound","delay":"1h"}"#).await;
    damage(&server, "pool", "MARK", "MERK");
    assert_reported_as_damaged(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_in_a_file_is_reported_as_damaged() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let url = format!("file:{}", dir.path().display());
    let server = Server::with(|settings| settings.store.url = Secret(url.clone())).await;
    server.put(BODY).await;
    server.put(r#"{"topic":"t","id":"sound","delay":"1h"}"#).await;
    server.stop().await;
    let file = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("opened");
    let damaged = "UPDATE pool SET body = CAST('\"MERK\"' AS BLOB) WHERE id = 'broken'";
    assert_eq!(file.execute(damaged, ()).expect("updated"), 1);
    drop(file);
    let server = Server::with(|settings| settings.store.url = Secret(url.clone())).await;
    assert_reported_as_damaged(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_refuses_a_change_before_it_is_applied() {
    let server = Server::on_redis().await;
    server.put(BODY).await;
    let due = async || server.topic("t").await["next_due_at"].clone();
    let (later, before) = (r#"{"delay":"2h"}"#, due().await);
    // The body gets another length, and then another checksum.
    for (sound, broken) in [("MARK", "MARKED"), ("MARKED", "MERK")] {
        damage(&server, "pool", sound, broken);
        let refused = server.patch("broken", later).await;
        assert_eq!(refused.problem(500, "job_damaged")["applied"], "no");
        assert_eq!(due().await, before);
    }
    // A new body repairs the job.
    assert_eq!(server.patch("broken", r#"{"body":1}"#).await.ok(200)["body"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_error_text_does_not_fail_a_change() {
    let server = Server::on_redis().await;
    server.put(r#"{"topic":"t","id":"broken"}"#).await;
    server.pop_one("t").await;
    let release = r#"{"delay":"1h","error":"MARK"}"#;
    server.post("/jobs/broken/release", release).await.ok(200);
    damage(&server, "attempts", "MARK", "MERK");
    let change = async {
        let job = server.patch("broken", r#"{"delay":"1s"}"#).await.ok(200);
        assert_shows(&job, json!({"state": "delayed", "attempt": 1}));
        assert!(job["error"].is_null(), "{job}");
    };
    // A waiting consumer gets the job at its due time.
    let (popped, ()) = futures::future::join(server.pop_one("t"), change).await;
    assert_eq!(popped["attempt"], 2);
}
