//! Batches: many jobs in one request.

use crate::api::prelude::*;

fn statuses(answer: &Value) -> Vec<u64> {
    let results = answer["results"].as_array().expect("results");
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

pub async fn each_job_of_a_batch_has_its_own_result(server: Server) {
    let jobs = r#"{"jobs":[{"topic":"t","id":"a"},{"topic":"t","id":"a"},{"topic":"t","delay":-1},
        {"topic":"t","id":"b","on_conflict":"keep"},{"topic":"t","id":"b","on_conflict":"keep"},
        7,{"id":"x"},{"topic":"t"}]}"#;
    let put = server.post("/batch/jobs", jobs).await.ok(200);
    assert_eq!(statuses(&put), [201, 409, 422, 201, 200, 422, 422, 201], "{put}");
    assert_shows(&put["results"][1], json!({"code": "job_exists", "id": "a"}));
    assert_eq!(put["results"][2]["field"], "jobs[2].delay");
    assert_eq!(put["results"][0]["state"], "ready");
    let both = r#"{"jobs":[{"topic":"t","delay":1,"due_at":1800000000000}]}"#;
    assert_eq!(server.post("/batch/jobs", both).await.results()[0]["field"], "jobs[0].due_at");

    let popped = server.pop("t/pop?count=10").await;
    assert_eq!(popped.len(), 3);
    let hold = |id: &str| {
        let job = popped.iter().find(|job| job["id"] == id).expect("it was popped");
        json!({"id": id, "reservation": reservation_of(job)})
    };
    let touches = json!({"jobs": [hold("a"), {"id": "nobody"}, {"reservation": "x"}]});
    let touched = server.post("/batch/touch", touches).await.ok(200);
    assert_eq!(statuses(&touched), [200, 404, 422], "{touched}");
    assert!(touched["results"][0]["reserved_until"].is_string());

    let mut release = hold("b");
    release["delay"] = "1h".into();
    let releases =
        json!({"jobs": [release, {"id": "a", "reservation": reservation_of(&hold("b"))}]});
    let released = server.post("/batch/release", releases).await.ok(200);
    assert_eq!(statuses(&released), [200, 409], "{released}");
    assert_eq!(released["results"][0]["state"], "delayed");

    let finishes = json!({"jobs": [hold("a"), hold("a")]});
    let finished = server.post("/batch/finish", finishes).await.ok(200);
    assert_eq!(statuses(&finished), [204, 404], "{finished}");

    let deletes = r#"{"jobs":[{"id":"b"},{"id":"a"}]}"#;
    let deleted = server.post("/batch/delete", deletes).await.ok(200);
    assert_eq!(statuses(&deleted), [200, 404], "{deleted}");
    assert_eq!(deleted["results"][0]["state"], "delayed");

    for id in ["c", "d", "e"] {
        server.put(json!({"topic": "t", "id": id, "delay": "1h"})).await;
    }
    let deletes = json!({"jobs": [
        {"id": "c", "state": "ready,dead"}, {"id": "d", "state": "delayed"}, {"id": "e", "state": "late"},
    ]});
    let deleted = server.post("/batch/delete", deletes).await.ok(200);
    assert_eq!(statuses(&deleted), [409, 200, 422], "{deleted}");
    let [excluded, _, invalid] = [0, 1, 2].map(|n| deleted["results"][n].clone());
    assert_shows(&excluded, json!({"code": "wrong_state", "state": "delayed"}));
    assert_eq!(invalid["field"], "jobs[2].state", "{invalid}");
}

pub async fn a_batch_buries_changes_and_kicks_each_job_by_itself(server: Server) {
    for id in ["a", "b"] {
        server.put(json!({"topic": "t", "id": id})).await;
    }
    let popped = server.pop("t/pop?count=2").await;
    let hold = |n: usize| json!({"id": popped[n]["id"], "reservation": reservation_of(&popped[n])});
    let mut refused = hold(1);
    refused["error"] = "x".repeat(5000).into();
    let mut buried = hold(0);
    buried["error"] = "no such shop".into();
    let burials = json!({"jobs": [buried, refused, {"id": "nobody"}, {"id": "b", "delay": 1}]});
    let answer = server.post("/batch/bury", burials).await.ok(200);
    assert_eq!(statuses(&answer), [200, 422, 404, 422], "{answer}");
    assert_eq!(answer["results"][0]["state"], "dead");
    assert_eq!(answer["results"][1]["field"], "jobs[1].error");
    assert_eq!(server.job("a").await["error"], "no such shop");

    let kicks =
        r#"{"jobs":[{"id":"a"},{"id":"b"},{},{"id":"nobody"},{"id":"a","reservation":"x"}]}"#;
    let kicked = server.post("/batch/kick", kicks).await.ok(200);
    assert_eq!(statuses(&kicked), [200, 409, 422, 404, 422], "{kicked}");
    assert_eq!(kicked["results"][0]["state"], "ready");
    assert_eq!(kicked["results"][1]["code"], "job_reserved");
    assert_eq!(kicked["results"][2]["field"], "jobs[2].id");

    let current = server.job("a").await;
    let mut sent_back = current.clone();
    sent_back["delay"] = "1h".into();
    sent_back["due_at"] = Value::Null;
    let mut other_topic = current;
    other_topic["topic"] = "u".into();
    let patches = json!({"jobs": [
        {"id": "b", "ttr": 5}, sent_back, other_topic, {"id": "a"}, {"ttr": 5},
        {"id": "a", "priority": 10}, {"id": "a", "body": {"n": 1}, "priority": 7},
    ]});
    let patched = server.post("/batch/patch", patches).await.ok(200);
    assert_eq!(statuses(&patched), [409, 200, 422, 422, 422, 422, 200], "{patched}");
    let fields = [2, 4, 5].map(|n| &patched["results"][n]["field"]);
    assert_eq!(fields, ["jobs[2].topic", "jobs[4].id", "jobs[5].priority"]);
    assert_eq!(patched["results"][1]["state"], "delayed");
    let last = &patched["results"][6];
    assert_shows(last, json!({"body": {"n": 1}, "priority": 7}));
    let mut shown = server.job("a").await;
    shown["status"] = 200.into();
    assert_eq!(*last, shown);
}

pub async fn batches_put_pop_and_finish_a_thousand_jobs(server: Server) {
    server.put_all((0..1000).map(|n| json!({"topic": "t", "body": n}))).await;
    let jobs = server.pop_all("t", 1000).await;
    let bodies: HashSet<_> = jobs.iter().map(|job| job["body"].as_u64()).collect();
    assert_eq!((jobs.len(), bodies.len()), (1000, 1000));
    let finish = |job| with(&held(job), json!({"id": job["id"]}));
    let finishes: Vec<Value> = jobs.iter().map(finish).collect();
    let finished = server.post("/batch/finish", json!({"jobs": finishes})).await;
    assert!(statuses(&finished.ok(200)).iter().all(|&status| status == 204));
}
