//! Power cuts, which lose all unsynced writes.

use crate::disk::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_changes_survive_a_power_cut() {
    let (disk, mut server) = Disk::with_server().await;
    let inode_syncs = disk.get(Field::InodeSyncs);
    for n in 0..60 {
        let syncs = disk.get(Field::Syncs);
        let put = json!({"topic": "t", "id": format!("job:{n}"), "body": n});
        assert_eq!(post(&server, "/jobs", put).await.0, 201);
        assert!(disk.get(Field::Syncs) > syncs, "the put of job {n} was not synced");
    }
    let more = disk.get(Field::InodeSyncs) - inode_syncs;
    assert_eq!(
        more, 0,
        "a commit has synced the log's inode, although the log has a constant size"
    );
    for n in 0..20 {
        let held = pop(&server, "t", 1).await;
        assert_eq!(held[0]["id"], format!("job:{n}"));
        assert_all(204, &server, "/batch/finish", &held).await;
    }
    server.kill();
    let (_remains, server) = disk.server_after_a_power_cut().await;
    let (_, popped) = server.get("/topics/t/pop?count=100").await;
    let jobs = popped["jobs"].as_array().expect("jobs");
    let bodies: Vec<u64> = jobs.iter().filter_map(|job| job["body"].as_u64()).collect();
    assert_eq!(bodies, (20..60).collect::<Vec<u64>>());
}
