//! Releases that do not count the attempt, and releases with a new body.

use jiff::SignedDuration;

use crate::api::prelude::*;

async fn get(server: &Server) -> Value {
    server.get("/jobs/a").await.ok(200)
}

async fn release(server: &Server, request: &Value) -> Answer {
    server.post("/jobs/a/release", request.to_string()).await
}

/// Releases a popped job without counting its attempt and without a delay. Returns the job from the
/// next pop.
async fn snooze(server: &Server, popped: &Value) -> Value {
    let by = json!({"reservation": reservation_of(popped), "delay": 0, "count_attempt": false});
    assert_eq!(release(server, &by).await.ok(200)["state"], "ready");
    server.pop_one("t").await
}

fn time(job: &Value, field: &str) -> Timestamp {
    job[field].as_str().expect("a time").parse().expect("a time")
}

/// Returns the number and outcome of each attempt of a history, and whether it counts.
fn attempts(job: &Value) -> Vec<(u64, &str, bool)> {
    let each = job["history"].as_array().expect("attempts").iter().map(|past| {
        let counted = past.get("counted").map(|counted| counted.as_bool().expect("a flag"));
        assert_ne!(counted, Some(true), "a counted attempt must not have the field: {past}");
        let outcome = past["outcome"].as_str().unwrap_or("running");
        (past["attempt"].as_u64().expect("a number"), outcome, counted.unwrap_or(true))
    });
    each.collect()
}

pub async fn an_uncounted_release_does_not_use_up_an_attempt(server: Server) {
    server.put(r#"{"topic":"t","id":"a","max_attempts":2}"#).await;
    let mut popped = server.pop_one("t").await;
    for _ in 0..5 {
        popped = snooze(&server, &popped).await;
        assert_eq!(popped["attempt"], 1);
    }
    let given_back = json!({"count_attempt": false, "error": "later", "delay": 0});
    release(&server, &given_back).await.ok(200);
    let job = get(&server).await;
    assert_eq!((&job["attempt"], &job["error"]), (&json!(0), &json!("later")));
    assert_eq!(
        attempts(&job),
        [(1, "released", false)],
        "successive uncounted attempts must be one entry, the last one"
    );
    assert_eq!(job["history"][0]["error"], "later");

    // Makes both counted attempts, and uncounted ones before and after them.
    assert_eq!(server.pop_one("t").await["attempt"], 1);
    release(&server, &json!({"count_attempt": true, "delay": 0})).await.ok(200);
    popped = server.pop_one("t").await;
    for _ in 0..5 {
        assert_eq!(popped["attempt"], 2, "the uncounted last attempt was used up");
        popped = snooze(&server, &popped).await;
    }
    let job = get(&server).await;
    let shown = [
        (1, "released", false),
        (1, "released", true),
        (2, "released", false),
        (2, "running", true),
    ];
    assert_eq!(attempts(&job), shown, "{job}");
    assert_eq!(release(&server, &json!({"count_attempt": null})).await.ok(200)["state"], "dead");
    assert_eq!(get(&server).await["attempt"], 2);
    assert!(server.pop("t/pop").await.is_empty());
}

pub async fn an_uncounted_release_waits_as_after_the_attempt_before(server: Server) {
    server.put(r#"{"topic":"t","id":"a","backoff":["1h","2h"],"max_attempts":9}"#).await;
    let uncounted = json!({"count_attempt": false});
    let wait = async |popped: &Value, request: &Value| {
        let released = release(&server, request).await.ok(200);
        let popped_at = time(popped, "reserved_until") - SignedDuration::from_secs(60);
        (time(&released, "due_at").duration_since(popped_at).as_secs() + 300) / 3600
    };
    let pop = async |attempt: u64| {
        server.post("/jobs/a/kick", "").await.ok(200);
        let popped = server.pop_one("t").await;
        assert_eq!(popped["attempt"], attempt);
        popped
    };
    // There is no attempt before the first one, so the job is ready at once.
    assert_eq!(wait(&pop(1).await, &uncounted).await, 0);
    assert_eq!(get(&server).await["state"], "ready");
    assert_eq!(wait(&pop(1).await, &json!({})).await, 1);
    for _ in 0..2 {
        assert_eq!(wait(&pop(2).await, &uncounted).await, 1);
        assert_eq!(get(&server).await["state"], "delayed");
    }
    assert_eq!(wait(&pop(2).await, &json!({})).await, 2);
    let given = json!({"count_attempt": false, "delay": "5h"});
    assert_eq!(wait(&pop(3).await, &given).await, 5);
    assert_eq!(wait(&pop(3).await, &uncounted).await, 2);
}

pub async fn a_job_released_a_thousand_times_has_its_first_attempt(server: Server) {
    server.put(r#"{"topic":"t","id":"a","max_attempts":1,"body":7}"#).await;
    let mut popped = server.pop_one("t").await;
    for _ in 0..1_000 {
        popped = snooze(&server, &popped).await;
    }
    assert_eq!((&popped["attempt"], &popped["body"]), (&json!(1), &json!(7)));
    let job = get(&server).await;
    assert_eq!(attempts(&job), [(1, "released", false), (1, "running", true)]);
    let by = json!({"reservation": reservation_of(&popped)}).to_string();
    assert_eq!(server.post("/jobs/a/finish", by).await.status, 204);
}

pub async fn a_job_released_uncounted_counts_as_popped(server: Server) {
    let put = r#"{"topic":"t","id":"a","finished_retention":"1h"}"#;
    for action in ["finish", "delete"] {
        server.put(put).await;
        server.post("/jobs/a/finish", "").await.problem(409, "never_popped");
        let popped = server.pop_one("t").await;
        let uncounted = json!({"count_attempt": false});
        release(&server, &uncounted).await.ok(200);
        assert_eq!(get(&server).await["attempt"], 0);
        // The reservation has ended, so a second release with it is refused.
        release(&server, &uncounted).await.problem(409, "reservation_lost");
        let by = json!({"reservation": reservation_of(&popped)});
        release(&server, &by).await.problem(409, "reservation_lost");
        if action == "finish" {
            assert_eq!(server.post("/jobs/a/finish", "").await.status, 204);
            let job = get(&server).await;
            assert_eq!((&job["state"], &job["attempt"]), (&json!("finished"), &json!(0)));
        }
        server.delete("/jobs/a").await.ok(200);
    }
    // A replacement counts as never popped.
    server.put(put).await;
    server.pop_one("t").await;
    release(&server, &json!({"count_attempt": false})).await.ok(200);
    let replace = r#"{"topic":"t","id":"a","on_conflict":"replace"}"#;
    server.post("/jobs", replace).await.ok(200);
    assert_eq!(get(&server).await["history"], json!([]));
    server.post("/jobs/a/finish", "").await.problem(409, "never_popped");
}

pub async fn a_late_uncounted_release_replaces_the_expired_ttr(server: Server) {
    server.put(r#"{"topic":"t","id":"a","ttr":1,"backoff":["1h"],"max_attempts":0}"#).await;
    let by = reservation_of(&server.pop_one("t").await);
    eventually!(get(&server).await["state"] == "delayed", "the TTR does not expire");
    assert_eq!(attempts(&get(&server).await), [(1, "expired", true)]);
    let late = json!({"reservation": by, "count_attempt": false});
    assert_eq!(release(&server, &late).await.ok(200)["state"], "ready");
    let job = get(&server).await;
    assert_eq!((attempts(&job), &job["attempt"]), (vec![(1, "released", false)], &json!(0)));
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}

pub async fn a_release_may_give_the_job_another_body(server: Server) {
    server.put(r#"{"topic":"t","id":"a","body":{"step": 1}}"#).await;
    let long = format!("{{ \"step\" :\t[\"{}\", 1e2] }}", "ä".repeat(60_000));
    let mut expected = r#"{"step": 1}"#.to_owned();
    let bodies =
        [None, Some("null"), Some("[0.10]"), Some(&long), Some("2"), Some("null"), Some(&long)];
    for (n, body) in bodies.into_iter().enumerate() {
        let popped = server.get("/topics/t/pop?wait=30s").await;
        assert!(popped.text.contains(&format!("\"body\":{expected}")), "{n}");
        let reservation = reservation_of(&popped.jobs()[0]);
        let uncounted = if n % 2 == 0 { "" } else { r#","count_attempt":false"# };
        let new = body.map(|body| format!(r#","body":{body}"#)).unwrap_or_default();
        let request = format!(r#"{{"reservation":"{reservation}","delay":0{uncounted}{new}}}"#);
        server.post("/jobs/a/release", request).await.ok(200);
        // Null means absent, so the body does not change.
        expected = body.filter(|body| *body != "null").map_or(expected, ToOwned::to_owned);
        let shown = server.get("/jobs/a").await;
        assert!(shown.text.contains(&format!("\"body\":{expected}")), "{n}");
    }
    // A job that dies with its release has the new body too.
    server.pop_one("t").await;
    let last = json!({"body": "last", "delay": 0});
    server
        .call(reqwest::Method::PATCH, "/jobs/a", r#"{"ttr":90}"#)
        .await
        .problem(409, "job_reserved");
    release(&server, &last).await.ok(200);
    assert_eq!(server.pop_one("t").await["body"], "last");
    server.post("/jobs/a/bury", "").await.ok(200);
    assert_eq!(get(&server).await["body"], "last");
}

pub async fn a_batch_of_releases_has_options_for_each_job(server: Server) {
    for id in ["a", "b", "c", "d"] {
        server
            .put(&json!({"topic": id, "id": id, "body": id, "max_attempts": 1}).to_string())
            .await;
        server.pop_one(id).await;
    }
    let batch = json!({"jobs": [
        {"id": "a", "count_attempt": false, "body": [1]},
        {"id": "b", "count_attempt": true, "body": [2]},
        {"id": "c", "count_attempt": "no"},
        {"id": "d", "body": "x".repeat(262_143)},
        {"id": "none", "count_attempt": false, "body": 3},
    ]});
    let answer = server.post("/batch/release", batch.to_string()).await.ok(200);
    let results = &answer["results"];
    assert_eq!((&results[0]["state"], &results[1]["state"]), (&json!("ready"), &json!("dead")));
    assert_eq!(results[2]["field"], "jobs[2].count_attempt", "{results}");
    assert_eq!(
        (&results[3]["code"], &results[3]["field"]),
        (&json!("body_too_large"), &json!("jobs[3].body"))
    );
    assert_eq!(results[4]["code"], "job_not_found", "{results}");
    for (id, state, body) in [
        ("a", "ready", json!([1])),
        ("b", "dead", json!([2])),
        ("c", "reserved", json!("c")),
        ("d", "reserved", json!("d")),
    ] {
        let job = server.get(&format!("/jobs/{id}")).await.ok(200);
        assert_eq!((&job["state"], &job["body"]), (&json!(state), &body), "{id}");
    }
}

pub async fn a_bad_release_changes_nothing(server: Server) {
    server.put(r#"{"topic":"t","id":"a","body":"old"}"#).await;
    let popped = server.pop_one("t").await;
    let by = reservation_of(&popped);
    let before = get(&server).await;
    for value in ["0", "1", "\"false\"", "[]", "{}"] {
        let request = format!(r#"{{"reservation":"{by}","body":1,"count_attempt":{value}}}"#);
        let answer = server.post("/jobs/a/release", request).await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], "count_attempt", "{value}");
    }
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    for body in [deep.as_str(), r#""\ud800""#, "1e999"] {
        let request = format!(r#"{{"reservation":"{by}","body":{body}}}"#);
        let answer = server.post("/jobs/a/release", request).await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], "body", "{body}");
    }
    let large = json!({"reservation": by, "body": "x".repeat(262_143)});
    let problem = release(&server, &large).await.problem(413, "body_too_large");
    assert_eq!((&problem["field"], &problem["applied"]), (&json!("body"), &json!("no")));
    for action in ["finish", "touch", "bury"] {
        for field in ["count_attempt", "body"] {
            let request = json!({"reservation": by, field: false}).to_string();
            let answer = server.post(&format!("/jobs/a/{action}"), request).await;
            assert_eq!(answer.problem(422, "invalid_field")["field"], field, "{action}");
        }
    }
    assert_eq!(get(&server).await, before);
    let largest = json!({"reservation": by, "body": "x".repeat(262_142)});
    release(&server, &largest).await.ok(200);
    assert_eq!(server.pop_one("t").await["body"], largest["body"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_body_counts_in_the_limits_of_its_topic() {
    let redis = Redis::start();
    let on_redis = Server::with(|settings| {
        settings.store.url = Secret(redis.url());
        settings.limits.topic_bytes = Some(5_000);
    });
    let on_file = Server::on_file_with(|settings| settings.limits.topic_bytes = Some(5_000));
    for server in [on_file.await, on_redis.await] {
        server.put(&json!({"topic": "t", "id": "a", "body": "x".repeat(3_000)}).to_string()).await;
        let by = reservation_of(&server.pop_one("t").await);
        let before = get(&server).await;
        let large = json!({"reservation": by, "body": "y".repeat(3_000)});
        let problem = release(&server, &large).await.problem(429, "topic_full");
        assert_eq!(problem["applied"], "no");
        let batch = json!({"jobs": [{"id": "a", "reservation": by, "body": large["body"]}]});
        let results = server.post("/batch/release", batch.to_string()).await.ok(200);
        assert_eq!(results["results"][0]["code"], "topic_full", "{results}");
        assert_eq!(get(&server).await, before);
        let small = json!({"reservation": by, "body": "z"});
        release(&server, &small).await.ok(200);
        assert_eq!(server.pop_one("t").await["body"], "z");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_releases_without_a_body_only() {
    let redis = Arc::new(Redis::start());
    let server = Server::on(Arc::clone(&redis)).await;
    for id in ["a", "b"] {
        server
            .put(&json!({"topic": "t", "id": id, "body": "old", "max_attempts": 1}).to_string())
            .await;
    }
    for _ in 0..2 {
        server.pop_one("t").await;
    }
    let before = get(&server).await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    for (body, status) in [(json!("new"), 200), (json!("x".repeat(100_000)), 409)] {
        let request = json!({"body": body, "count_attempt": false});
        let problem = release(&server, &request).await.problem(507, "store_full");
        assert_eq!(problem["applied"], "no", "{problem}");
        let batch = json!({"jobs": [{"id": "a", "body": body}, {"id": "b", "count_attempt": false, "delay": "1h"}]});
        let results = server.post("/batch/release", batch.to_string()).await.ok(200);
        assert_eq!(results["results"][0]["code"], "store_full", "{results}");
        assert_eq!(results["results"][1]["status"], status, "{results}");
        assert_eq!(get(&server).await, before);
    }
    assert_eq!(server.get("/jobs/b").await.ok(200)["state"], "delayed");
    let kept = json!({"count_attempt": false, "delay": 0, "error": "later"});
    assert_eq!(release(&server, &kept).await.ok(200)["state"], "ready");
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    let popped = server.pop_one("t").await;
    assert_eq!((&popped["attempt"], &popped["body"]), (&json!(1), &json!("old")));
}
