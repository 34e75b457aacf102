//! Releases that do not count the attempt, and releases with a new body.

use crate::api::prelude::*;

async fn release(server: &Server, request: &Value) -> Answer {
    server.act("a", "release", request).await
}

/// Releases a popped job without counting its attempt and without a delay. Returns the job from the
/// next pop.
async fn snooze(server: &Server, popped: &Value) -> Value {
    let by = with(&held(popped), json!({"delay": 0, "count_attempt": false}));
    assert_eq!(release(server, &by).await.ok(200)["state"], "ready");
    server.pop_one("t").await
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
    let job = server.job("a").await;
    assert_shows(&job, json!({"attempt": 0, "error": "later"}));
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
    let job = server.job("a").await;
    let shown = [
        (1, "released", false),
        (1, "released", true),
        (2, "released", false),
        (2, "running", true),
    ];
    assert_eq!(attempts(&job), shown, "{job}");
    assert_eq!(release(&server, &json!({"count_attempt": null})).await.ok(200)["state"], "dead");
    assert_eq!(server.job("a").await["attempt"], 2);
    assert!(server.pop("t/pop").await.is_empty());
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
    server.patch("a", r#"{"ttr":90}"#).await.problem(409, "job_reserved");
    release(&server, &last).await.ok(200);
    assert_eq!(server.pop_one("t").await["body"], "last");
    server.post("/jobs/a/bury", "").await.ok(200);
    assert_eq!(server.job("a").await["body"], "last");
}

pub async fn a_batch_of_releases_has_options_for_each_job(server: Server) {
    for id in ["a", "b", "c", "d"] {
        server.put(json!({"topic": id, "id": id, "body": id, "max_attempts": 1})).await;
        server.pop_one(id).await;
    }
    let batch = json!({"jobs": [
        {"id": "a", "count_attempt": false, "body": [1]},
        {"id": "b", "count_attempt": true, "body": [2]},
        {"id": "c", "count_attempt": "no"},
        {"id": "d", "body": "x".repeat(262_143)},
        {"id": "none", "count_attempt": false, "body": 3},
    ]});
    let results = server.post("/batch/release", &batch).await.results();
    for (result, shown) in results.iter().zip([
        json!({"state": "ready"}),
        json!({"state": "dead"}),
        json!({"field": "jobs[2].count_attempt"}),
        json!({"code": "body_too_large", "field": "jobs[3].body"}),
        json!({"code": "job_not_found"}),
    ]) {
        assert_shows(result, shown);
    }
    for (id, state, body) in [
        ("a", "ready", json!([1])),
        ("b", "dead", json!([2])),
        ("c", "reserved", json!("c")),
        ("d", "reserved", json!("d")),
    ] {
        assert_shows(&server.job(id).await, json!({"state": state, "body": body}));
    }
}

pub async fn a_bad_release_changes_nothing(server: Server) {
    server.put(r#"{"topic":"t","id":"a","body":"old"}"#).await;
    let popped = server.pop_one("t").await;
    let by = reservation_of(&popped);
    let before = server.job("a").await;
    for value in ["0", "1", "\"false\"", "[]", "{}"] {
        let request = format!(r#"{{"reservation":"{by}","body":1,"count_attempt":{value}}}"#);
        server.act("a", "release", request).await.invalid("count_attempt");
    }
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    for body in [deep.as_str(), r#""\ud800""#, "1e999"] {
        let request = format!(r#"{{"reservation":"{by}","body":{body}}}"#);
        server.act("a", "release", request).await.invalid("body");
    }
    let large = json!({"reservation": by, "body": "x".repeat(262_143)});
    let problem = release(&server, &large).await.problem(413, "body_too_large");
    assert_shows(&problem, json!({"field": "body", "applied": "no"}));
    for action in ["finish", "touch", "bury"] {
        for field in ["count_attempt", "body"] {
            server.act("a", action, json!({"reservation": by, field: false})).await.invalid(field);
        }
    }
    assert_eq!(server.job("a").await, before);
    let largest = json!({"reservation": by, "body": "x".repeat(262_142)});
    release(&server, &largest).await.ok(200);
    assert_eq!(server.pop_one("t").await["body"], largest["body"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_body_counts_in_the_limits_of_its_topic() {
    for server in Server::on_each_with(|all| all.limits.topic_bytes = Some(5_000)).await {
        server.put(json!({"topic": "t", "id": "a", "body": "x".repeat(3_000)})).await;
        let by = reservation_of(&server.pop_one("t").await);
        let before = server.job("a").await;
        let large = json!({"reservation": by, "body": "y".repeat(3_000)});
        assert_eq!(release(&server, &large).await.problem(429, "topic_full")["applied"], "no");
        let batch = json!({"jobs": [{"id": "a", "reservation": by, "body": large["body"]}]});
        assert_eq!(server.post("/batch/release", &batch).await.results()[0]["code"], "topic_full");
        assert_eq!(server.job("a").await, before);
        let small = json!({"reservation": by, "body": "z"});
        release(&server, &small).await.ok(200);
        assert_eq!(server.pop_one("t").await["body"], "z");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_releases_without_a_body_only() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    for id in ["a", "b"] {
        server.put(json!({"topic": "t", "id": id, "body": "old", "max_attempts": 1})).await;
    }
    for _ in 0..2 {
        server.pop_one("t").await;
    }
    let before = server.job("a").await;
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    for (body, status) in [(json!("new"), 200), (json!("x".repeat(100_000)), 409)] {
        let request = json!({"body": body, "count_attempt": false});
        assert_eq!(release(&server, &request).await.problem(507, "store_full")["applied"], "no");
        let batch = json!({"jobs": [{"id": "a", "body": body}, {"id": "b", "count_attempt": false, "delay": "1h"}]});
        let results = server.post("/batch/release", &batch).await.results();
        assert_eq!(results[0]["code"], "store_full");
        assert_eq!(results[1]["status"], status);
        assert_eq!(server.job("a").await, before);
    }
    assert_eq!(server.job("b").await["state"], "delayed");
    let kept = json!({"count_attempt": false, "delay": 0, "error": "later"});
    assert_eq!(release(&server, &kept).await.ok(200)["state"], "ready");
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    assert_shows(&server.pop_one("t").await, json!({"attempt": 1, "body": "old"}));
}
