//! Batches: many jobs in one request.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::api::server::{Server, reservation_of};

fn statuses(answer: &Value) -> Vec<u64> {
    let results = answer["results"].as_array().expect("results");
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

pub async fn each_job_of_a_batch_has_a_result_of_its_own(server: Server) {
    let jobs = r#"{"jobs":[{"topic":"t","id":"a"},{"topic":"t","id":"a"},{"topic":"t","delay":-1},
        {"topic":"t","id":"b","on_conflict":"keep"},{"topic":"t","id":"b","on_conflict":"keep"},
        7,{"id":"x"},{"topic":"t"}]}"#;
    let put = server.post("/batch/jobs", jobs).await.ok(200);
    assert_eq!(statuses(&put), [201, 409, 422, 201, 200, 422, 422, 201], "{put}");
    assert_eq!(
        (&put["results"][1]["code"], &put["results"][1]["id"]),
        (&"job_exists".into(), &"a".into())
    );
    assert_eq!(put["results"][2]["field"], "jobs[2].delay");
    assert_eq!(put["results"][0]["state"], "ready");
    let both = r#"{"jobs":[{"topic":"t","delay":1,"due_at":1800000000000}]}"#;
    let both = server.post("/batch/jobs", both).await.ok(200);
    assert_eq!(both["results"][0]["field"], "jobs[0].due_at", "{both}");

    let popped = server.pop("t/pop?count=10").await;
    assert_eq!(popped.len(), 3);
    let hold = |id: &str| {
        let job = popped.iter().find(|job| job["id"] == id).expect("it was popped");
        json!({"id": id, "reservation": reservation_of(job)})
    };
    let touches = json!({"jobs": [hold("a"), {"id": "nobody"}, {"reservation": "x"}]});
    let touched = server.post("/batch/touch", touches.to_string()).await.ok(200);
    assert_eq!(statuses(&touched), [200, 404, 422], "{touched}");
    assert!(touched["results"][0]["reserved_until"].is_string());

    let mut release = hold("b");
    release["delay"] = "1h".into();
    let releases =
        json!({"jobs": [release, {"id": "a", "reservation": reservation_of(&hold("b"))}]});
    let released = server.post("/batch/release", releases.to_string()).await.ok(200);
    assert_eq!(statuses(&released), [200, 409], "{released}");
    assert_eq!(released["results"][0]["state"], "delayed");

    let finishes = json!({"jobs": [hold("a"), hold("a")]});
    let finished = server.post("/batch/finish", finishes.to_string()).await.ok(200);
    assert_eq!(statuses(&finished), [204, 404], "{finished}");

    let deletes = r#"{"jobs":[{"id":"b"},{"id":"a"}]}"#;
    let deleted = server.post("/batch/delete", deletes).await.ok(200);
    assert_eq!(statuses(&deleted), [200, 404], "{deleted}");
    assert_eq!(deleted["results"][0]["state"], "delayed");

    for id in ["c", "d", "e"] {
        server.put(&json!({"topic": "t", "id": id, "delay": "1h"}).to_string()).await;
    }
    let deletes = json!({"jobs": [
        {"id": "c", "state": "ready,dead"}, {"id": "d", "state": "delayed"}, {"id": "e", "state": "late"},
    ]});
    let deleted = server.post("/batch/delete", deletes.to_string()).await.ok(200);
    assert_eq!(statuses(&deleted), [409, 200, 422], "{deleted}");
    let [excluded, _, invalid] = [0, 1, 2].map(|n| deleted["results"][n].clone());
    assert_eq!((&excluded["code"], &excluded["state"]), (&json!("wrong_state"), &json!("delayed")));
    assert_eq!(invalid["field"], "jobs[2].state", "{invalid}");
}

pub async fn a_thousand_jobs_go_in_and_come_out(server: Server) {
    let jobs: Vec<Value> = (0..1000).map(|n| json!({"topic": "t", "body": n})).collect();
    let put = server.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);
    assert!(statuses(&put).iter().all(|&status| status == 201));
    let mut bodies = HashSet::new();
    let mut finishes = Vec::new();
    while bodies.len() < 1000 {
        let jobs = server.pop("t/pop?count=100&wait=5s").await;
        assert!(!jobs.is_empty(), "only {} came", bodies.len());
        for job in jobs {
            assert!(bodies.insert(job["body"].as_u64().expect("a number")), "twice: {job}");
            finishes.push(json!({"id": job["id"], "reservation": job["reservation"]}));
        }
    }
    let finished = server.post("/batch/finish", json!({"jobs": finishes}).to_string()).await;
    assert!(statuses(&finished.ok(200)).iter().all(|&status| status == 204));
}
