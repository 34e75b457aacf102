//! Finished jobs that are kept: results, ids that stay taken, and refusals.

use crate::api::job_waits::{ended_early, wait};
use crate::api::prelude::*;

/// Puts and pops a job with a retention of an hour. Returns the request with which its consumer
/// finishes it.
async fn held(server: &Server, id: &str) -> Value {
    let put = json!({"topic": "t", "id": id, "body": {"n": 1}, "finished_retention": "1h"});
    server.put(&put.to_string()).await;
    json!({"reservation": reservation_of(&server.pop_one("t").await)})
}

async fn finish(server: &Server, id: &str, request: &Value) -> Answer {
    server.post(&format!("/jobs/{id}/finish"), request.to_string()).await
}

fn with(request: &Value, field: &str, value: Value) -> Value {
    let mut request = request.clone();
    request[field] = value;
    request
}

pub async fn a_kept_job_shows_its_result_and_no_body(server: Server) {
    let put = json!({
        "topic": "t", "id": "a", "body": "secret", "headers": {"X-Shop": "7"},
        "finished_retention": "1h",
    });
    server.put(&put.to_string()).await;
    let popped = server.pop_one("t").await;
    let request = json!({"reservation": reservation_of(&popped), "result": {"paid": [1, 2.50]}});
    assert_eq!(finish(&server, "a", &request).await.status, 204);
    let answer = server.get("/jobs/a").await;
    assert!(answer.text.contains(r#""result":{"paid":[1,2.5]}"#), "{}", answer.text);
    let job = answer.ok(200);
    for (field, value) in [
        ("state", json!("finished")),
        ("outcome", json!("finished")),
        ("attempt", json!(1)),
        ("headers", json!({"X-Shop": "7"})),
        ("due_at", popped["due_at"].clone()),
        ("created_at", popped["created_at"].clone()),
        ("error", Value::Null),
        ("reserved_until", Value::Null),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    assert!(job["finished_at"].is_string() && job.get("body").is_none(), "{job}");
    assert!(job.get("result_dropped").is_none(), "{job}");
    assert!(server.pop("t/pop?count=9").await.is_empty());
}

pub async fn the_id_of_a_kept_job_is_free_after_its_retention(server: Server) {
    server.put(r#"{"topic":"t","id":"a","finished_retention":"500ms"}"#).await;
    let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
    assert_eq!(finish(&server, "a", &request).await.status, 204);
    eventually!(
        server.get("/jobs/a").await.status == 404,
        "the job was not removed after its retention"
    );
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}

pub async fn a_retried_put_of_a_finished_job_creates_no_second_job(server: Server) {
    let request = held(&server, "a").await;
    finish(&server, "a", &request).await;
    let put = json!({"topic": "t", "id": "a", "body": 2});
    let problem = server.post("/jobs", put.to_string()).await.problem(409, "job_exists");
    assert_eq!((&problem["state"], &problem["topic"]), (&json!("finished"), &json!("t")));
    let kept = server.post("/jobs", with(&put, "on_conflict", json!("keep")).to_string()).await;
    assert_eq!(kept.ok(200)["state"], "finished");
    assert!(server.pop("t/pop").await.is_empty());
    let other = json!({"topic": "other", "id": "a", "on_conflict": "replace"});
    server.post("/jobs", other.to_string()).await.problem(409, "job_exists");

    let replaced = with(&put, "on_conflict", json!("replace"));
    let replaced = server.post("/jobs", replaced.to_string()).await.ok(201);
    assert_eq!(replaced["state"], "ready");
    let again = server.pop_one("t").await;
    assert_eq!((&again["attempt"], &again["body"]), (&json!(1), &json!(2)));
}

pub async fn a_finish_can_be_repeated_only_with_its_reservation(server: Server) {
    let request = held(&server, "a").await;
    let first = with(&request, "result", json!("first"));
    for request in [&first, &request, &with(&request, "result", json!("second")), &first] {
        assert_eq!(finish(&server, "a", request).await.status, 204);
    }
    assert_eq!(server.get("/jobs/a").await.ok(200)["result"], "first");
    let other = with(&request, "reservation", json!("0".repeat(32)));
    for request in [json!({}), other] {
        finish(&server, "a", &request).await.problem(409, "job_finished");
    }
    let both = json!({"jobs": [with(&request, "id", json!("a")), {"id": "a"}]});
    let results = server.post("/batch/finish", both.to_string()).await.ok(200)["results"].clone();
    assert_eq!((&results[0]["status"], &results[1]["code"]), (&json!(204), &json!("job_finished")));
}

pub async fn a_refused_result_changes_nothing(server: Server) {
    let request = held(&server, "a").await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(r#"{{"reservation":{},"result":{deep}}}"#, request["reservation"]);
    server.post("/jobs/a/finish", deep).await.problem(422, "invalid_field");
    let large = with(&request, "result", json!("x".repeat(65_535)));
    let problem = finish(&server, "a", &large).await.problem(413, "result_too_large");
    assert_eq!(problem["field"], "result");
    assert_eq!(server.get("/jobs/a").await.ok(200)["state"], "reserved");
    let largest = with(&request, "result", json!("x".repeat(65_534)));
    assert_eq!(finish(&server, "a", &largest).await.status, 204);
    assert_eq!(server.get("/jobs/a").await.ok(200)["result"], largest["result"]);

    server.put(r#"{"topic":"t","id":"gone"}"#).await;
    let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
    let unkept = with(&request, "result", json!(1));
    let problem = finish(&server, "gone", &unkept).await.problem(422, "result_not_kept");
    assert_eq!(problem["field"], "result");
    assert_eq!(server.get("/jobs/gone").await.ok(200)["state"], "reserved");
    assert_eq!(finish(&server, "gone", &with(&request, "result", Value::Null)).await.status, 204);
    server.get("/jobs/gone").await.problem(404, "job_not_found");
}

pub async fn a_finished_job_refuses_other_actions(server: Server) {
    let request = held(&server, "a").await;
    finish(&server, "a", &with(&request, "result", json!(7))).await;
    let before = server.get("/jobs/a").await.ok(200);
    for action in ["release", "touch", "bury"] {
        for request in [request.to_string(), String::new()] {
            let answer = server.post(&format!("/jobs/a/{action}"), request).await;
            answer.problem(409, "job_finished");
        }
    }
    server.post("/jobs/a/kick", "").await.problem(409, "job_finished");
    let patch = r#"{"delay":"1h"}"#;
    server.call(Method::PATCH, "/jobs/a", patch).await.problem(409, "job_finished");
    assert_eq!(server.get("/jobs/a").await.ok(200), before);
    assert_eq!(server.delete("/jobs/a").await.ok(200)["state"], "finished");
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn a_deleted_id_stays_taken_if_it_is_remembered(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h","body":1}"#).await;
    let wrong = server.delete("/jobs/a?state=dead&remember=1h").await;
    wrong.problem(409, "wrong_state");
    let deleted = server.delete("/jobs/a?state=delayed,ready&remember=1h").await.ok(200);
    assert_eq!(deleted["state"], "delayed");
    let job = server.get("/jobs/a").await.ok(200);
    assert_eq!((&job["state"], &job["outcome"]), (&json!("finished"), &json!("deleted")));
    assert_eq!((&job["attempt"], job.get("body")), (&json!(0), None));
    server.post("/jobs", r#"{"topic":"t","id":"a"}"#).await.problem(409, "job_exists");

    let request = held(&server, "b").await;
    let batch = json!({"jobs": [
        {"id": "b", "remember": "1h"}, {"id": "none", "remember": 5}, {"id": "b", "remember": "31d"},
    ]});
    let results = server.post("/batch/delete", batch.to_string()).await.ok(200)["results"].clone();
    let shown = |n: usize| (results[n]["status"].clone(), results[n]["field"].clone());
    assert_eq!(shown(0), (json!(200), Value::Null));
    assert_eq!(shown(1), (json!(404), Value::Null));
    assert_eq!(shown(2), (json!(422), json!("jobs[2].remember")));
    // The consumer of a deleted job cannot finish it.
    finish(&server, "b", &request).await.problem(409, "job_finished");
    for query in ["remember=31d", "remember=-1", "remember=soon", "remember=1s&remember=2s"] {
        server.delete(&format!("/jobs/a?{query}")).await.problem(422, "invalid_field");
    }
    server.delete("/jobs/a?remember=0").await.ok(200);
    server.get("/jobs/a").await.problem(404, "job_not_found");
}

pub async fn finished_jobs_are_counted_listed_and_purged(server: Server) {
    for (id, retention) in [("late", "2h"), ("early", "1h")] {
        let put = json!({"topic": "t", "id": id, "finished_retention": retention});
        server.put(&put.to_string()).await;
        let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
        finish(&server, id, &request).await;
    }
    server.put(r#"{"topic":"t","id":"ready"}"#).await;
    let topic = server.get("/topics/t").await.ok(200);
    assert_eq!((&topic["finished"], &topic["ready"]), (&json!(2), &json!(1)));
    let overview = server.get("/overview").await.ok(200);
    assert_eq!(overview["jobs"]["finished"], 2, "{overview}");
    let ids = async |query: &str| {
        let page = server.get(&format!("/topics/t/jobs?state=finished{query}")).await.ok(200);
        let ids = page["jobs"].as_array().expect("a list").iter().map(|job| job["id"].clone());
        (ids.collect::<Vec<_>>(), page["cursor"].clone())
    };
    // The list is in the order of the ends of the retentions.
    assert_eq!(ids("").await.0, ["early", "late"]);
    let (first, next) = ids("&limit=1").await;
    assert_eq!(first, ["early"]);
    let after = next.as_str().expect("a cursor");
    assert_eq!(ids(&format!("&limit=1&cursor={after}")).await.0, ["late"]);
    let refused = server.get("/topics/t/jobs?state=finished&died_after=2030-01-01T00:00:00Z").await;
    refused.problem(422, "invalid_field");
    let purged = server.delete("/topics/t/jobs?state=finished").await.ok(200);
    assert_eq!(purged["purged"], 2);
    assert_eq!(server.get("/topics/t").await.ok(200)["finished"], 0);

    let request = held(&server, "kept").await;
    finish(&server, "kept", &request).await;
    let purged = server.delete("/topics/t/jobs").await.ok(200);
    assert_eq!(purged["purged"], 2, "not exactly the ready and the finished job were purged");
    server.get("/jobs/kept").await.problem(404, "job_not_found");
}

pub async fn a_batch_of_finishes_keeps_results_by_job(server: Server) {
    let mut jobs = Vec::new();
    for (id, retention) in [("kept", "1h"), ("gone", "0s"), ("large", "1h")] {
        let put = json!({"topic": "t", "id": id, "finished_retention": retention});
        server.put(&put.to_string()).await;
        let reservation = reservation_of(&server.pop_one("t").await);
        jobs.push(json!({"id": id, "reservation": reservation, "result": {"of": id}}));
    }
    jobs[2]["result"] = json!("x".repeat(65_535));
    let answer = server.post("/batch/finish", json!({"jobs": jobs}).to_string()).await.ok(200);
    let results = &answer["results"];
    assert_eq!(results[0]["status"], 204, "{results}");
    for (index, code) in [(1, "result_not_kept"), (2, "result_too_large")] {
        assert_eq!(results[index]["code"], code, "{results}");
        assert_eq!(results[index]["field"], format!("jobs[{index}].result"), "{results}");
    }
    assert_eq!(server.get("/jobs/kept").await.ok(200)["result"], json!({"of": "kept"}));
    for id in ["gone", "large"] {
        assert_eq!(server.get(&format!("/jobs/{id}")).await.ok(200)["state"], "reserved", "{id}");
    }
}

pub async fn a_topic_keeps_finished_jobs_unless_a_put_overrides_it(server: Server) {
    let defaults = r#"{"finished_retention":"1h"}"#;
    let topic = server.call(Method::PUT, "/topics/t", defaults).await.ok(200);
    assert_eq!(topic["defaults"]["finished_retention"], 3600.0);
    for (id, own, kept) in [
        ("a", "", true),
        ("b", r#","finished_retention":null"#, true),
        ("c", r#","finished_retention":0"#, false),
    ] {
        server.put(&format!(r#"{{"topic":"t","id":"{id}"{own}}}"#)).await;
        let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
        assert_eq!(finish(&server, id, &request).await.status, 204);
        let status = server.get(&format!("/jobs/{id}")).await.status;
        assert_eq!(status, if kept { 200 } else { 404 }, "{id}");
    }
    server.put(r#"{"topic":"t","id":"d","finished_retention":0}"#).await;
    let patch = r#"{"finished_retention":"1h"}"#;
    server.call(Method::PATCH, "/jobs/d", patch).await.ok(200);
    let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
    finish(&server, "d", &request).await;
    assert_eq!(server.get("/jobs/d").await.ok(200)["state"], "finished");
}

pub async fn a_bad_retention_is_refused_by_its_name(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    for value in [r#""31d""#, "-1", r#""soon""#, "true", "[1]", "2592000.001"] {
        let field = format!(r#""finished_retention":{value}"#);
        for (method, path, request) in [
            (Method::POST, "/jobs", format!(r#"{{"topic":"t","id":"b",{field}}}"#)),
            (Method::PATCH, "/jobs/a", format!("{{{field}}}")),
            (Method::PUT, "/topics/t", format!("{{{field}}}")),
        ] {
            let problem = server.call(method, path, request).await.problem(422, "invalid_field");
            assert_eq!(problem["field"], "finished_retention", "{value}");
        }
    }
    server.get("/jobs/b").await.problem(404, "job_not_found");
    server.put(r#"{"topic":"t","id":"b","finished_retention":"30d"}"#).await;
}

pub async fn a_wait_ends_with_the_result(server: Server) {
    let server = Arc::new(server);
    let request = held(&server, "a").await;
    let waiting = wait(&server, "a").await;
    finish(&server, "a", &with(&request, "result", json!({"ok": true}))).await;
    let job = ended_early(waiting).await.ok(200);
    assert_eq!((&job["state"], &job["result"]), (&json!("finished"), &json!({"ok": true})));
    assert_eq!(ended_early(wait(&server, "a").await).await.ok(200), job);
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_do_not_fill_their_topic() {
    let redis = Redis::start();
    let on_redis = Server::with(|settings| {
        settings.store.url = Secret(redis.url());
        settings.limits.topic_jobs = Some(1);
    });
    let on_file = Server::on_file_with(|settings| settings.limits.topic_jobs = Some(1));
    for server in [on_file.await, on_redis.await] {
        for id in ["a", "b", "c"] {
            let put = json!({"topic": "t", "id": id, "finished_retention": "1h"}).to_string();
            // The server counts the jobs again from time to time.
            eventually!(
                server.post("/jobs", put.clone()).await.status == 201,
                "the topic is still full"
            );
            let request = json!({"reservation": reservation_of(&server.pop_one("t").await)});
            finish(&server, id, &request).await;
        }
        let last = r#"{"topic":"t","id":"d"}"#;
        eventually!(server.post("/jobs", last).await.status == 201, "the topic is still full");
        server.post("/jobs", r#"{"topic":"t","id":"e"}"#).await.problem(429, "topic_full");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_finishes_jobs_without_their_results() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    let request = held(&server, "a").await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    assert_eq!(finish(&server, "a", &with(&request, "result", json!(1))).await.status, 204);
    let job = server.get("/jobs/a").await.ok(200);
    assert_eq!((&job["state"], &job["result_dropped"]), (&json!("finished"), &json!(true)));
    assert!(job.get("result").is_none(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_cancel_sees_no_result() {
    let server = Server::on_file().await;
    let request = held(&server, "a").await;
    finish(&server, "a", &with(&request, "result", json!("secret"))).await;
    let root = server.token("", "root", json!({"admin": ["*"], "read": ["*"]})).await;
    let cancel = server.token(&root, "c", json!({"cancel": ["t"]})).await;
    let get = async |path: &str, token: &str| {
        Server::send(server.request(Method::GET, path).bearer_auth(token)).await.ok(200)
    };
    assert_eq!(get("/jobs/a", &root).await["result"], "secret");
    for path in ["/jobs/a", "/jobs/a?wait=1s"] {
        let seen = get(path, &cancel).await;
        assert!(seen.get("result").is_none() && seen.get("history").is_none(), "{seen}");
        assert_eq!(seen["outcome"], "finished");
    }
}
