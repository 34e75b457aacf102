//! Repairs on a disk that fills up meanwhile. A repair either succeeds or leaves the store
//! unchanged.

use std::process::Output;

use crate::disk::prelude::*;
use crate::support::file_log::flip_the_middle;

const JOBS: usize = 1500;
/// Room that each try has in addition to the previous one.
const STEP_KIB: i32 = 200;

fn repair(disk: &Disk) -> Command {
    program(&disk.root(), &["--store", "file:./state/data", "doctor", "--repair"])
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// Creates a store whose server was killed, and damages the middle of its log.
async fn make_damaged_store(disk: &Disk) {
    let mut server = disk.server().await;
    for batch in 0..JOBS / 100 {
        let job = |n| json!({"topic": "t", "id": format!("{batch}:{n}"), "body": "x".repeat(1000)});
        let jobs: Vec<_> = (0..100).map(job).collect();
        let (status, said) =
            server.post("/batch/jobs", json!({"jobs": jobs})).await.expect("an answer");
        assert_eq!(status, 200, "{said}");
    }
    server.kill();
    flip_the_middle(&disk.root().join("state/data/jobs.db-wal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_without_room_leaves_all_jobs_for_the_next_one() {
    let disk = Disk::new();
    make_damaged_store(&disk).await;
    let data = disk.root().join("state/data");
    let used: u64 = fs::read_dir(&data)
        .expect("the store's directory")
        .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
        .sum();
    let used = i32::try_from(used / 1024).expect("a small store");
    disk.set(Field::FullError, ENOSPC);
    let mut refused = 0;
    for room in (0..10_000).step_by(STEP_KIB as usize) {
        disk.set(Field::CapacityKib, used + room);
        let mut command = repair(&disk);
        disk.attach_to(&mut command, &[]);
        let said = command.output().expect("the program runs");
        if said.status.success() {
            break;
        }
        let said = text(&said);
        assert!(said.contains("jobs.db.new") && said.contains("full"), "{room} KiB: {said}");
        refused += 1;
    }
    assert!(refused > 5, "the disk was full in only {refused} tries");
    let said = text(&repair(&disk).output().expect("the program runs"));
    // Only one page of the log is damaged. The repair reads the pages before and after it.
    let ready = (JOBS - 10..=JOBS).any(|n| said.contains(&format!(" {n} ready")));
    assert!(ready && said.contains("to repair   nothing"), "{said}");
}
