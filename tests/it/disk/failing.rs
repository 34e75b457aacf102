//! A disk that fails: every answer says so, and so does readyz, until something is written again.

use serde_json::json;

use crate::{
    disk::shim::{Disk, EIO, Field, readiness, until},
    support::{
        process::Process,
        shifted_clock::{ShiftedClock, seconds_until},
    },
};

async fn put(server: &Process, id: &str) -> (u16, String) {
    let put = json!({"topic": "t", "id": id});
    let (status, answer) = server.post("/jobs", put).await.expect("an answer");
    (status, answer["applied"].as_str().unwrap_or_default().to_owned())
}

async fn ids(server: &Process) -> Vec<String> {
    let (_, popped) = server.get("/topics/t/pop?count=100&ttr=1h").await;
    let jobs = popped["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
}

async fn shows_while_it_fails(field: Field, applied: &str) {
    let disk = Disk::new();
    let mut server = disk.server().await;
    assert_eq!(put(&server, "before").await.0, 201);
    disk.set(field, EIO);
    assert_eq!(put(&server, "during").await, (503, applied.to_owned()));
    let (status, said) = readiness(&server).await;
    assert_eq!(status, 503, "{said}");
    assert!(
        said.contains("store_unavailable") && said.contains("failed to reach the store: "),
        "{said}"
    );
    for _ in 0..50 {
        assert_eq!(put(&server, "later").await, (503, "no".to_owned()), "refused at once");
    }
    assert_eq!(disk.said("nothing can be written"), 1);
    // No request comes: the server tries by itself.
    disk.set(field, 0);
    until(|| readiness(&server), |(status, _)| *status == 200).await;
    assert_eq!(disk.said("writing goes well again"), 1);
    assert_eq!(put(&server, "after").await.0, 201);
    server.kill();
    let left = disk.after_a_power_cut();
    let server = Process::start(left.path(), &["--store", "file:./state/data"]).await;
    let found = ids(&server).await;
    for (id, must) in [("before", true), ("after", true), ("later", false)] {
        assert_eq!(found.iter().any(|found| found == id), must, "{id} of {found:?}");
    }
    if applied == "no" {
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_written_is_told_and_tried_again() {
    shows_while_it_fails(Field::WriteError, "no").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_fails_leaves_its_puts_unknown_and_what_follows_is_on_disk() {
    shows_while_it_fails(Field::SyncError, "unknown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_read_is_told_and_costs_no_job() {
    let disk = Disk::new();
    let server = disk.server().await;
    // More than the engine holds in memory.
    let body = "x".repeat(100_000);
    let job = |n| json!({"topic": "t", "id": format!("job:{n:03}"), "body": body});
    let all = 240;
    for first in (0..all).step_by(60) {
        let jobs: Vec<_> = (first..first + 60).map(job).collect();
        let put = server.post("/batch/jobs", json!({"jobs": jobs})).await;
        assert_eq!(put.expect("an answer").0, 200);
    }
    disk.set(Field::ReadError, EIO);
    for path in ["/topics/t/jobs?state=ready&limit=1000", "/topics/t/pop?count=60", "/jobs/job:000"]
    {
        let (status, answer) = server.get(path).await;
        assert_eq!(
            (status, &answer["code"]),
            (503, &json!("store_unavailable")),
            "{path}: {answer}"
        );
        assert_eq!(answer["applied"], "no", "{path}: {answer}");
    }
    disk.set(Field::ReadError, 0);
    let mut found = ids(&server).await;
    while found.len() < all {
        let more = ids(&server).await;
        assert!(!more.is_empty(), "only {found:?}");
        found.extend(more);
    }
    let expected: Vec<String> = (0..all).map(|n| format!("job:{n:03}")).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttr_lasts_though_the_clock_is_set_while_no_sync_goes_well() {
    const DAY: i64 = 86_400;
    let (disk, clock) = (Disk::new(), ShiftedClock::new());
    let server = disk.server_by(&clock).await;
    server.post("/jobs", json!({"topic": "t", "id": "held", "ttr": "1h"})).await.expect("put");
    let (_, popped) = server.get("/topics/t/pop").await;
    for (offset, name) in [(DAY, "forward"), (0, "back")] {
        // Whether the file has the new end of the reservation is not known after this.
        disk.set(Field::SyncError, EIO);
        clock.set(offset);
        assert_eq!(put(&server, name).await.0, 503);
        disk.set(Field::SyncError, 0);
        until(|| readiness(&server), |(status, _)| *status == 200).await;
        assert_eq!(put(&server, &format!("{name}:after")).await.0, 201);
        let left = seconds_until(&server.get("/jobs/held").await.1["reserved_until"]) - offset;
        assert!((3_000..=3_600).contains(&left), "{left} s are left of the TTR: {name}");
    }
    let held = json!({"reservation": popped["jobs"][0]["reservation"]});
    assert_eq!(server.post("/jobs/held/finish", held).await.expect("an answer").0, 204);
}
