//! Priorities: the order of ready jobs, and the calls that show or change it.

use delay_queue::job::{Bucket, Buckets, JobId, UnixMillis};

use crate::api::prelude::*;

/// Returns ids that belong to one bucket, since pops have an exact order only within a bucket.
pub fn ids_in_one_bucket(count: usize) -> Vec<String> {
    let first = |id: &JobId| Buckets::SIXTEEN.of(id) == Bucket::FIRST;
    let ids = (0..).map(|n| format!("job-{n}")).filter(|id| first(&id.parse().expect("an id")));
    ids.take(count).collect()
}

/// Returns the bodies of popped or listed jobs.
fn bodies(jobs: &[Value]) -> Vec<u64> {
    jobs.iter().map(|job| job["body"].as_u64().expect("a number")).collect()
}

async fn patch(server: &Server, id: &str, change: &Value) -> Value {
    server.call(Method::PATCH, &format!("/jobs/{id}"), change.to_string()).await.ok(200)
}

async fn put_batch(server: &Server, jobs: Vec<Value>) {
    let answer = server.post("/batch/jobs", json!({ "jobs": jobs }).to_string()).await.ok(200);
    for result in answer["results"].as_array().expect("results") {
        assert_eq!(result["status"], 201, "{result}");
    }
}

async fn until_ready(server: &Server, topic: &str, count: usize) {
    let path = format!("/topics/{topic}");
    eventually!(
        server.get(&path).await.ok(200)["ready"] == count,
        "{count} jobs do not become ready"
    );
}

pub async fn jobs_are_popped_by_priority_and_then_due_time(server: Server) {
    // The body is the expected position. There are ten priorities with two due times each.
    let ids = ids_in_one_bucket(20);
    let now = server.put(r#"{"topic":"clock"}"#).await["due_at"].clone();
    let now: UnixMillis = now.as_str().expect("a text").parse().expect("a time");
    let job = |n: usize| {
        let (place, priority) = (n * 7 % 20, 9 - n * 7 % 20 / 2);
        // The times are absolute, so that a slow put does not change the order.
        let due_at = now.after(Millis::new(if place % 2 == 0 { 5_000 } else { 5_500 })).get();
        json!({"topic": "t", "id": ids[n], "body": place, "priority": priority, "due_at": due_at})
    };
    put_batch(&server, (0..12).map(job).collect()).await;
    for n in 12..20 {
        server.put(&job(n).to_string()).await;
    }
    until_ready(&server, "t", 20).await;
    let mut popped = bodies(&server.pop("t/pop").await);
    popped.extend(bodies(&server.pop("t/pop?count=13").await));
    popped.extend(bodies(&server.pop("t/pop?count=100").await));
    assert_eq!(popped, (0..20).collect::<Vec<_>>());
}

pub async fn a_job_keeps_its_priority_when_it_is_ready_again(server: Server) {
    let ids = ids_in_one_bucket(10);
    let again = ["release", "ttr", "bury", "unset", "kick", "default"];
    let put = |n: usize| json!({"topic": "t", "id": ids[n], "body": again[n], "priority": 9});
    for (n, how) in again.into_iter().enumerate().take(5) {
        let mut put = put(n);
        put["ttr"] = json!(if how == "ttr" { 1 } else { 60 });
        put["delay"] = json!(if how == "kick" { "1h" } else { "0s" });
        server.put(&put.to_string()).await;
    }
    assert_eq!(server.pop("t/pop?count=4").await.len(), 4);
    // Four jobs of the default priority have been ready for longer.
    put_batch(&server, (6..10).map(|n| json!({"topic": "t", "id": ids[n]})).collect()).await;
    server.put(&json!({"topic": "t", "id": ids[5], "body": "default"}).to_string()).await;
    server.post(&format!("/jobs/{}/release", ids[0]), r#"{"delay":0}"#).await.ok(200);
    server.post(&format!("/jobs/{}/bury", ids[2]), "").await.ok(200);
    server.post("/topics/t/kick", "").await.ok(200);
    server.post(&format!("/jobs/{}/kick", ids[4]), "").await.ok(200);
    // A replaced job has the priority of the new put.
    server.post(&format!("/jobs/{}/release", ids[3]), r#"{"delay":0}"#).await.ok(200);
    let replace = json!({"topic": "t", "id": ids[3], "on_conflict": "replace"});
    assert_eq!(server.post("/jobs", replace.to_string()).await.ok(200)["state"], "ready");
    until_ready(&server, "t", 10).await;
    let first = server.pop("t/pop?count=4&ttr=1m").await;
    let mut names: Vec<&str> = first.iter().filter_map(|job| job["body"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["bury", "kick", "release", "ttr"], "{first:?}");
    assert!(first.iter().all(|job| job["priority"] == 9), "{first:?}");
    let rest = server.pop("t/pop?count=10").await;
    assert_eq!(rest.len(), 6);
    assert!(rest.iter().all(|job| job.get("priority").is_none()), "{rest:?}");
}

pub async fn a_change_moves_a_job_between_priorities(server: Server) {
    let ids = ids_in_one_bucket(3);
    let put = |n: usize, delay: &str| {
        json!({"topic": "t", "id": ids[n], "body": n, "delay": delay}).to_string()
    };
    for (n, delay) in ["0s", "0s", "1h"].into_iter().enumerate() {
        server.put(&put(n, delay)).await;
    }
    let before = server.get(&format!("/jobs/{}", ids[1])).await.ok(200);
    assert_eq!(before["priority"], 4);
    let mut changed = patch(&server, &ids[1], &json!({"priority": 7, "ttr": null})).await;
    assert_eq!((&changed["priority"], &changed["state"]), (&json!(7), &json!("ready")));
    changed["priority"] = json!(4);
    assert_eq!(changed, before, "the change has affected other fields");
    // A client may send the whole answer of a GET back, also with another priority.
    let mut shown = server.get(&format!("/jobs/{}", ids[1])).await.ok(200);
    assert_eq!(patch(&server, &ids[1], &shown).await, shown);
    shown["priority"] = json!(5);
    assert_eq!(patch(&server, &ids[1], &shown).await, shown);
    assert_eq!(patch(&server, &ids[2], &json!({"priority": 9})).await["state"], "delayed");
    assert_eq!(patch(&server, &ids[2], &json!({"ttr": 90, "priority": null})).await["priority"], 9);
    assert_eq!(patch(&server, &ids[2], &json!({"delay": 0})).await["priority"], 9);
    assert_eq!(bodies(&server.pop("t/pop?count=3").await), [2, 1, 0]);
}

pub async fn a_topic_has_a_default_priority(server: Server) {
    let put_topic = async |body: &Value| {
        server.call(Method::PUT, "/topics/t", body.to_string()).await.ok(200)["defaults"].clone()
    };
    let defaults = put_topic(&json!({"priority": 0})).await;
    assert_eq!(defaults["priority"], 0);
    assert_eq!(put_topic(&server.get("/topics/t").await.ok(200)).await, defaults);
    let given = [json!({}), json!({"priority": null}), json!({"priority": 6})];
    let mut jobs = Vec::new();
    for (n, priority) in given.iter().enumerate() {
        for way in ["put", "batch"] {
            let mut job = priority.clone();
            (job["topic"], job["id"]) = (json!("t"), json!(format!("{way}-{n}")));
            match way {
                "put" => drop(server.put(&job.to_string()).await),
                _ => jobs.push(job),
            }
        }
    }
    put_batch(&server, jobs).await;
    for (n, expected) in [0, 0, 6].into_iter().enumerate() {
        for way in ["put", "batch"] {
            let job = server.get(&format!("/jobs/{way}-{n}")).await.ok(200);
            assert_eq!(job["priority"], expected, "{way}-{n}");
        }
    }
    assert_eq!(put_topic(&json!({"priority": null})).await["priority"], Value::Null);
    server.put(r#"{"topic":"t","id":"standard"}"#).await;
    assert_eq!(server.get("/jobs/standard").await.ok(200)["priority"], 4);
    // Existing jobs of the topic keep their priority.
    assert_eq!(server.get("/jobs/put-0").await.ok(200)["priority"], 0);
}

/// Returns the numbers of all listed jobs, read in pages of `limit`.
async fn listed(server: &Server, query: &str, limit: usize) -> Vec<u64> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/topics/{query}&limit={limit}{cursor}");
        let page = server.get(&path).await.ok(200);
        all.extend(bodies(page["jobs"].as_array().expect("jobs")));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

pub async fn lists_and_filters_work_across_priorities(server: Server) {
    // The expected order differs from the order of ids and of puts.
    const JOBS: [(u8, f64); 6] = [(4, 0.3), (9, 0.2), (0, 0.1), (9, 0.4), (4, 0.5), (0, 0.6)];
    let ids = ids_in_one_bucket(12);
    let put = |topic: &str, id: &str, n: usize, later: f64| {
        let (priority, delay) = (JOBS[n].0, JOBS[n].1 + later);
        json!({"topic": topic, "id": id, "body": n, "priority": priority, "delay": delay})
    };
    put_batch(&server, (0..6).map(|n| put("t", &ids[n], n, 0.0)).collect()).await;
    let later = |n: usize| put("later", ids[6 + n].as_str(), n, 3600.0);
    put_batch(&server, (0..6).map(later).collect()).await;
    // Lists are sorted only within a bucket, and contain one bucket after another.
    let spread = (0..60).map(|n| put("spread", &format!("spread-{n}"), n % 6, 0.0));
    put_batch(&server, spread.collect()).await;
    until_ready(&server, "t", 6).await;
    until_ready(&server, "spread", 60).await;

    let mut due = Vec::new();
    for id in &ids[..6] {
        let job = server.get(&format!("/jobs/{id}")).await.ok(200);
        due.push(job["due_at"].as_str().expect("a time").to_owned());
    }
    let (from, until) = (format!("&due_after={}", due[0]), format!("&due_before={}", due[3]));
    let both = format!("{from}&due_before={}", due[4]);
    for limit in 1..=7 {
        let ready = async |filter: &str| {
            listed(&server, &format!("t/jobs?state=ready{filter}"), limit).await
        };
        assert_eq!(ready("").await, [1, 3, 0, 4, 2, 5], "{limit}");
        assert_eq!(ready(&from).await, [3, 0, 4, 5], "{limit}");
        assert_eq!(ready(&until).await, [1, 0, 2], "{limit}");
        assert_eq!(ready(&both).await, [3, 0], "{limit}");
        let delayed = listed(&server, "later/jobs?state=delayed", limit).await;
        assert_eq!(
            delayed,
            [2, 1, 0, 3, 4, 5],
            "delayed jobs are not sorted by due time; limit {limit}"
        );
        let mut spread = listed(&server, "spread/jobs?state=ready", limit).await;
        spread.sort_unstable();
        assert_eq!(spread, (0..60).map(|n| n / 10).collect::<Vec<_>>(), "{limit}");
    }
}

pub async fn the_oldest_ready_job_may_be_of_any_priority(server: Server) {
    for (topic, first) in [("low", 0), ("high", 9)] {
        let put = |priority| json!({"topic": topic, "priority": priority}).to_string();
        server.put(&put(first)).await;
        pass(Duration::from_millis(1_200)).await; // the test needs jobs of a certain age
        server.put(&put(9 - first)).await;
        server.put(&put(4)).await;
        let shown = server.get(&format!("/topics/{topic}")).await.ok(200);
        let age = shown["oldest_ready_age"].as_f64().expect("an age");
        assert!(age >= 1.1, "{shown}");
    }
}

pub async fn earlier_topics_come_before_priority(server: Server) {
    server.put(r#"{"topic":"b","priority":9}"#).await;
    server.put(r#"{"topic":"a","priority":0}"#).await;
    for topic in ["a", "b"] {
        assert_eq!(server.pop_one("a,b").await["topic"], topic);
    }
}

pub async fn a_bad_priority_is_refused_by_its_name(server: Server) {
    server.put(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    for value in [json!(10), json!(-1), json!(4.5), json!("4"), json!(true), json!([4]), json!({})]
    {
        let put = json!({"topic": "t", "id": "b", "priority": value});
        for (method, path, request) in [
            (Method::POST, "/jobs", put.clone()),
            (Method::PATCH, "/jobs/a", json!({"ttr": 90, "priority": value})),
            (Method::PUT, "/topics/t", json!({"ttr": 90, "priority": value})),
        ] {
            let answer = server.call(method, path, request.to_string()).await;
            let problem = answer.problem(422, "invalid_field");
            assert_eq!(problem["field"], "priority", "{value}");
            assert!(problem["detail"].as_str().expect("text").contains("0 to 9"), "{problem}");
        }
        let batch = json!({"jobs": [{"topic": "t", "id": "c"}, put]}).to_string();
        let results = server.post("/batch/jobs", batch).await.ok(200)["results"].clone();
        assert_eq!(results[1]["field"], "jobs[1].priority", "{value}");
        assert_eq!(results[0]["status"], 201, "{results}");
        server.delete("/jobs/c").await.ok(200);
    }
    let nothing = server.call(Method::PATCH, "/jobs/a", r#"{"priority":null}"#).await;
    nothing.problem(422, "invalid_field");
    server.get("/jobs/b").await.problem(404, "job_not_found");
    let job = server.get("/jobs/a").await.ok(200);
    assert_eq!((&job["ttr"], &job["priority"]), (&json!(60), &json!(4)));
    server.get("/topics/t").await.ok(200)["defaults"]["ttr"].as_null().expect("no defaults");
}
