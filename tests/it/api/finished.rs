//! Finished jobs that are kept: results, ids that stay taken, and refusals.

use crate::api::job_waits::{ended_early, wait};
use crate::api::prelude::*;

/// Puts and pops a job with a retention of an hour. Returns the request with which its consumer
/// finishes it.
async fn hold(server: &Server, id: &str) -> Value {
    let put = json!({"topic": "t", "id": id, "body": {"n": 1}, "finished_retention": "1h"});
    server.put(put).await;
    server.hold("t").await
}

async fn finish(server: &Server, id: &str, request: &Value) -> Answer {
    server.act(id, "finish", request).await
}

pub async fn a_kept_job_shows_its_result_and_no_body(server: Server) {
    let put = json!({
        "topic": "t", "id": "a", "body": "secret", "headers": {"X-Shop": "7"},
        "finished_retention": "1h",
    });
    server.put(put).await;
    let popped = server.pop_one("t").await;
    let request = json!({"reservation": reservation_of(&popped), "result": {"paid": [1, 2.50]}});
    finish(&server, "a", &request).await.is_done();
    let answer = server.get("/jobs/a").await;
    assert!(answer.text.contains(r#""result":{"paid":[1,2.5]}"#), "{}", answer.text);
    let job = answer.ok(200);
    let [due_at, created_at] = ["due_at", "created_at"].map(|field| &popped[field]);
    let expected = json!({
        "state": "finished", "outcome": "finished", "attempt": 1, "headers": {"X-Shop": "7"},
        "due_at": due_at, "created_at": created_at, "error": null, "reserved_until": null,
    });
    assert_shows(&job, expected);
    assert!(job["finished_at"].is_string() && job.get("body").is_none(), "{job}");
    assert!(job.get("result_dropped").is_none(), "{job}");
    assert!(server.pop("t/pop?count=9").await.is_empty());
}

pub async fn a_retried_put_of_a_finished_job_creates_no_second_job(server: Server) {
    let request = hold(&server, "a").await;
    finish(&server, "a", &request).await;
    let put = json!({"topic": "t", "id": "a", "body": 2});
    let problem = server.post("/jobs", &put).await.problem(409, "job_exists");
    assert_shows(&problem, json!({"state": "finished", "topic": "t"}));
    let kept = server.post("/jobs", with(&put, json!({"on_conflict": "keep"}))).await;
    assert_eq!(kept.ok(200)["state"], "finished");
    assert!(server.pop("t/pop").await.is_empty());
    let other = json!({"topic": "other", "id": "a", "on_conflict": "replace"});
    server.post("/jobs", other).await.problem(409, "job_exists");

    let replaced = with(&put, json!({"on_conflict": "replace"}));
    assert_eq!(server.post("/jobs", replaced).await.ok(201)["state"], "ready");
    assert_shows(&server.pop_one("t").await, json!({"attempt": 1, "body": 2}));
}

pub async fn a_finish_can_be_repeated_only_with_its_reservation(server: Server) {
    let request = hold(&server, "a").await;
    let first = with(&request, json!({"result": "first"}));
    for request in [&first, &request, &with(&request, json!({"result": "second"})), &first] {
        finish(&server, "a", request).await.is_done();
    }
    assert_eq!(server.job("a").await["result"], "first");
    let other = with(&request, json!({"reservation": "0".repeat(32)}));
    for request in [json!({}), other] {
        finish(&server, "a", &request).await.problem(409, "job_finished");
    }
    let both = json!({"jobs": [with(&request, json!({"id": "a"})), {"id": "a"}]});
    let results = server.post("/batch/finish", both).await.results();
    assert_eq!((&results[0]["status"], &results[1]["code"]), (&json!(204), &json!("job_finished")));
}

pub async fn a_refused_result_changes_nothing(server: Server) {
    let request = hold(&server, "a").await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(r#"{{"reservation":{},"result":{deep}}}"#, request["reservation"]);
    server.post("/jobs/a/finish", deep).await.problem(422, "invalid_field");
    let large = with(&request, json!({"result": "x".repeat(65_535)}));
    let problem = finish(&server, "a", &large).await.problem(413, "result_too_large");
    assert_eq!(problem["field"], "result");
    assert_eq!(server.job("a").await["state"], "reserved");
    let largest = with(&request, json!({"result": "x".repeat(65_534)}));
    finish(&server, "a", &largest).await.is_done();
    assert_eq!(server.job("a").await["result"], largest["result"]);

    server.put(r#"{"topic":"t","id":"gone"}"#).await;
    let request = server.hold("t").await;
    let unkept = with(&request, json!({"result": 1}));
    let problem = finish(&server, "gone", &unkept).await.problem(422, "result_not_kept");
    assert_eq!(problem["field"], "result");
    assert_eq!(server.job("gone").await["state"], "reserved");
    finish(&server, "gone", &with(&request, json!({"result": null}))).await.is_done();
    server.get("/jobs/gone").await.problem(404, "job_not_found");
}

pub async fn a_finished_job_refuses_other_actions(server: Server) {
    let request = hold(&server, "a").await;
    finish(&server, "a", &with(&request, json!({"result": 7}))).await;
    let before = server.job("a").await;
    for action in ["release", "touch", "bury"] {
        for request in [request.to_string(), String::new()] {
            server.act("a", action, request).await.problem(409, "job_finished");
        }
    }
    server.post("/jobs/a/kick", "").await.problem(409, "job_finished");
    let patch = r#"{"delay":"1h"}"#;
    server.patch("a", patch).await.problem(409, "job_finished");
    assert_eq!(server.job("a").await, before);
    assert_eq!(server.delete("/jobs/a").await.ok(200)["state"], "finished");
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn a_deleted_id_stays_taken_if_it_is_remembered(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","body":1}"#).await;
    server.delete("/jobs/a?state=dead&remember=1h").await.problem(409, "wrong_state");
    let deleted = server.delete("/jobs/a?state=delayed,ready&remember=1h").await.ok(200);
    assert_eq!(deleted["state"], "delayed");
    let job = server.job("a").await;
    assert_shows(&job, json!({"state": "finished", "outcome": "deleted"}));
    assert_eq!((&job["attempt"], job.get("body")), (&json!(0), None));
    server.post("/jobs", r#"{"topic":"t","id":"a"}"#).await.problem(409, "job_exists");

    let request = hold(&server, "b").await;
    let batch = json!({"jobs": [
        {"id": "b", "remember": "1h"}, {"id": "none", "remember": 5}, {"id": "b", "remember": "31d"},
    ]});
    let results = server.post("/batch/delete", &batch).await.results();
    for (result, status, field) in
        [(0, 200, Value::Null), (1, 404, Value::Null), (2, 422, json!("jobs[2].remember"))]
    {
        assert_shows(&results[result], json!({"status": status, "field": field}));
    }
    // The consumer of a deleted job cannot finish it.
    finish(&server, "b", &request).await.problem(409, "job_finished");
    server.delete("/jobs/a?remember=0").await.ok(200);
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn finished_jobs_are_counted_listed_and_purged(server: Server) {
    for (id, retention) in [("late", "2h"), ("early", "1h")] {
        let put = json!({"topic": "t", "id": id, "finished_retention": retention});
        server.put(put).await;
        let request = server.hold("t").await;
        finish(&server, id, &request).await;
    }
    server.put(r#"{"topic":"t","id":"ready"}"#).await;
    assert_shows(&server.topic("t").await, json!({"finished": 2, "ready": 1}));
    assert_eq!(server.get("/overview").await.ok(200)["jobs"]["finished"], 2);
    // The list is in the order of the ends of the retentions.
    for limit in [1, 9] {
        let path = format!("/topics/t/jobs?state=finished&limit={limit}");
        let listed = server.all_pages(&path).await;
        assert_eq!(listed.iter().map(id_of).collect::<Vec<_>>(), ["early", "late"]);
    }
    assert_eq!(server.delete("/topics/t/jobs?state=finished").await.ok(200)["purged"], 2);
    assert_eq!(server.topic("t").await["finished"], 0);

    let request = hold(&server, "kept").await;
    finish(&server, "kept", &request).await;
    let purged = server.delete("/topics/t/jobs").await.ok(200);
    assert_eq!(purged["purged"], 2, "not exactly the ready and the finished job were purged");
    server.get("/jobs/kept").await.problem(404, "job_not_found");
}

pub async fn a_batch_of_finishes_keeps_results_by_job(server: Server) {
    let mut jobs = Vec::new();
    for (id, retention) in [("kept", "1h"), ("gone", "0s"), ("large", "1h")] {
        let put = json!({"topic": "t", "id": id, "finished_retention": retention});
        server.put(put).await;
        let reservation = reservation_of(&server.pop_one("t").await);
        jobs.push(json!({"id": id, "reservation": reservation, "result": {"of": id}}));
    }
    jobs[2]["result"] = json!("x".repeat(65_535));
    let answer = server.post("/batch/finish", json!({"jobs": jobs})).await.ok(200);
    let results = &answer["results"];
    assert_eq!(results[0]["status"], 204, "{results}");
    for (index, code) in [(1, "result_not_kept"), (2, "result_too_large")] {
        assert_eq!(results[index]["code"], code, "{results}");
        assert_eq!(results[index]["field"], format!("jobs[{index}].result"), "{results}");
    }
    assert_eq!(server.job("kept").await["result"], json!({"of": "kept"}));
    for id in ["gone", "large"] {
        assert_eq!(server.job(id).await["state"], "reserved", "{id}");
    }
}

pub async fn a_topic_keeps_finished_jobs_unless_a_put_overrides_it(server: Server) {
    let defaults = r#"{"finished_retention":"1h"}"#;
    let topic = server.set_topic("t", defaults).await.ok(200);
    assert_eq!(topic["defaults"]["finished_retention"], 3600.0);
    for (id, own, kept) in [
        ("a", "", true),
        ("b", r#","finished_retention":null"#, true),
        ("c", r#","finished_retention":0"#, false),
    ] {
        server.put(format!(r#"{{"topic":"t","id":"{id}"{own}}}"#)).await;
        let request = server.hold("t").await;
        finish(&server, id, &request).await.is_done();
        let status = server.get(&format!("/jobs/{id}")).await.status;
        assert_eq!(status, if kept { 200 } else { 404 }, "{id}");
    }
    server.put(r#"{"topic":"t","id":"d","finished_retention":0}"#).await;
    let patch = r#"{"finished_retention":"1h"}"#;
    server.patch("d", patch).await.ok(200);
    let request = server.hold("t").await;
    finish(&server, "d", &request).await;
    assert_eq!(server.job("d").await["state"], "finished");
}

pub async fn a_wait_ends_with_the_result(server: Server) {
    let server = Arc::new(server);
    let request = hold(&server, "a").await;
    let waiting = wait(&server, "a").await;
    finish(&server, "a", &with(&request, json!({"result": {"ok": true}}))).await;
    let job = ended_early(waiting).await.ok(200);
    assert_shows(&job, json!({"state": "finished", "result": {"ok": true}}));
    assert_eq!(ended_early(wait(&server, "a").await).await.ok(200), job);
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_do_not_fill_their_topic() {
    for server in Server::on_each_with(|settings| settings.limits.topic_jobs = Some(1)).await {
        for id in ["a", "b", "c"] {
            // The server counts the jobs again from time to time.
            let put = json!({"topic": "t", "id": id, "finished_retention": "1h"});
            eventually!(server.post("/jobs", &put).await.status == 201, "the topic is still full");
            let request = server.hold("t").await;
            finish(&server, id, &request).await;
        }
        let last = r#"{"topic":"t","id":"d"}"#;
        eventually!(server.post("/jobs", last).await.status == 201, "the topic is still full");
        server.post("/jobs", r#"{"topic":"t","id":"e"}"#).await.problem(429, "topic_full");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_finishes_jobs_without_their_results() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    let request = hold(&server, "a").await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    finish(&server, "a", &with(&request, json!({"result": 1}))).await.is_done();
    let job = server.job("a").await;
    assert_shows(&job, json!({"state": "finished", "result_dropped": true}));
    assert!(job.get("result").is_none(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_cancel_sees_no_result() {
    let server = Server::on_file().await;
    let request = hold(&server, "a").await;
    finish(&server, "a", &with(&request, json!({"result": "secret"}))).await;
    let root = server.token("", "root", json!({"admin": ["*"], "read": ["*"]})).await;
    let cancel = server.token(&root, "c", json!({"cancel": ["t"]})).await;
    let get =
        async |path: &str, token: &str| server.call_as(token, Method::GET, path, "").await.ok(200);
    let seen = get("/jobs/a", &root).await;
    assert_eq!((&seen["result"], seen["history"].is_array()), (&json!("secret"), true), "{seen}");
    for path in ["/jobs/a", "/jobs/a?wait=1s"] {
        let seen = get(path, &cancel).await;
        assert!(seen.get("result").is_none() && seen.get("history").is_none(), "{seen}");
        assert_eq!(seen["outcome"], "finished");
    }
}
