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

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_without_room_leaves_all_jobs_for_the_next_one() {
    let (disk, mut server) = Disk::with_server().await;
    put_all(&server, "t", JOBS, 1000).await;
    server.kill();
    flip_the_middle(&disk.data().join("jobs.db-wal"));
    let used = disk.used_kib();
    let mut refused = 0;
    for room in (0..10_000).step_by(STEP_KIB as usize) {
        disk.limit(used + room);
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
