//! Power cuts, which lose all unsynced writes.

use crate::disk::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_changes_survive_a_power_cut() {
    let disk = Disk::new();
    let mut server = disk.server().await;
    let inode_syncs = disk.get(Field::InodeSyncs);
    for n in 0..60 {
        let syncs = disk.get(Field::Syncs);
        let put = json!({"topic": "t", "id": format!("job:{n}"), "body": n});
        assert_eq!(server.post("/jobs", put).await.expect("an answer").0, 201);
        assert!(disk.get(Field::Syncs) > syncs, "the put of job {n} was not synced");
    }
    let more = disk.get(Field::InodeSyncs) - inode_syncs;
    assert_eq!(
        more, 0,
        "a commit has synced the log's inode, although the log has a constant size"
    );
    for n in 0..20 {
        let (_, popped) = server.get("/topics/t/pop?ttr=1h").await;
        let id = popped["jobs"][0]["id"].as_str().expect("a job").to_owned();
        assert_eq!(id, format!("job:{n}"));
        let finish = json!({"reservation": popped["jobs"][0]["reservation"]});
        let finished = server.post(&format!("/jobs/{id}/finish"), finish).await;
        assert_eq!(finished.expect("an answer").0, 204);
    }
    server.kill();
    let left = disk.after_a_power_cut();
    let server = Process::start(left.path(), &["--store", "file:./state/data"]).await;
    let (_, popped) = server.get("/topics/t/pop?count=100").await;
    let jobs = popped["jobs"].as_array().expect("jobs");
    let bodies: Vec<u64> = jobs.iter().filter_map(|job| job["body"].as_u64()).collect();
    assert_eq!(bodies, (20..60).collect::<Vec<u64>>());
}
