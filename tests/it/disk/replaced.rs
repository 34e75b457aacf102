//! Files that are removed under a running server.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::json;

use crate::{
    disk::shim::{Disk, EIO, Field, readiness, until},
    support::process::Process,
};

fn data(disk: &Disk) -> PathBuf {
    disk.root().join("state/data")
}

async fn put(server: &Process, id: &str) -> (u16, String) {
    let put = json!({"topic": "t", "id": id});
    let (status, answer) = server.post("/jobs", put).await.expect("an answer");
    (status, answer["code"].as_str().unwrap_or_default().to_owned())
}

fn replaced() -> (u16, String) {
    (503, "store_replaced".to_owned())
}

async fn is_noticed(take_away: impl FnOnce(&Disk)) {
    let disk = Disk::new();
    let server = disk.server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    take_away(&disk);
    assert_eq!(put(&server, "b").await, replaced(), "by the first put after it");
    assert_eq!(put(&server, "c").await, replaced());
    let (status, said) = readiness(&server).await;
    assert!(status == 503 && said.contains("store_replaced"), "{status} {said}");
    assert_eq!(server.get("/jobs/a").await.0, 200, "what is open can still be read");
    assert_eq!(disk.said("nothing can be written"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_was_removed() {
    is_noticed(|disk| fs::remove_dir_all(data(disk)).expect("removed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_removed() {
    is_noticed(|disk| fs::remove_file(data(disk).join("jobs.db-wal")).expect("removed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_saves_the_jobs_of_a_removed_log() {
    let disk = Disk::new();
    let mut server = disk.server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    fs::remove_file(data(&disk).join("jobs.db-wal")).expect("removed");
    assert_eq!(put(&server, "b").await, replaced());
    server.signal("-TERM");
    server.wait();
    assert_eq!(disk.server().await.get("/jobs/a").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_whose_place_another_was_put() {
    is_noticed(|disk| {
        let file = data(disk).join("jobs.db");
        let copy = data(disk).join("copy");
        fs::copy(&file, &copy).expect("copied");
        fs::rename(copy, file).expect("renamed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_was_removed_is_noticed_without_any_put() {
    let disk = Disk::new();
    let server = disk.server().await;
    fs::remove_dir_all(data(&disk)).expect("removed");
    until(|| readiness(&server), |(status, _)| *status == 503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_leaves_files_that_replaced_its_own_alone() {
    let disk = Disk::new();
    let mut first = disk.server().await;
    assert_eq!(put(&first, "a").await.0, 201);
    fs::remove_dir_all(data(&disk)).expect("removed");
    let mut second = disk.server().await;
    assert_eq!(put(&second, "b").await.0, 201);
    assert_eq!(put(&first, "c").await, replaced());
    first.signal("-TERM");
    first.wait();
    assert_eq!(put(&second, "d").await.0, 201);
    second.kill();
    let again = disk.server().await;
    for (id, status) in [("a", 404), ("b", 200), ("c", 404), ("d", 200)] {
        assert_eq!(again.get(&format!("/jobs/{id}")).await.0, status, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_file_that_was_removed_lets_no_second_server_in() {
    let disk = Disk::new();
    let server = disk.server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    fs::remove_file(data(&disk).join("lock")).expect("removed");
    let second =
        crate::support::process::program(&disk.root(), &["--store", "file:./state/data"]).output();
    let second = second.expect("the program runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another delay-queue"));
    assert_eq!(put(&server, "b").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_into_replaced_files_are_unknown() {
    // The server also compares the files every 100 ms, and refuses later puts.
    for _ in 0..50 {
        let disk = Disk::new();
        let server = disk.server().await;
        assert_eq!(put(&server, "a").await.0, 201);
        fs::remove_dir_all(data(&disk)).expect("removed");
        let job = json!({"topic": "t", "id": "b"});
        let (status, answer) = server.post("/jobs", job).await.expect("an answer");
        assert_eq!((status, &answer["code"]), (503, &json!("store_replaced")), "{answer}");
        let is_there = server.get("/jobs/b").await.0 == 200;
        assert_eq!(answer["applied"], if is_there { "unknown" } else { "no" });
        if is_there {
            return;
        }
    }
    panic!("each put came too late to be committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_replaced_stays_so_though_it_is_tried_again_to_write() {
    let disk = Disk::new();
    let server = disk.server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    disk.set(Field::SyncError, EIO);
    assert_eq!(put(&server, "b").await, (503, "store_unavailable".to_owned()));
    fs::remove_dir_all(data(&disk)).expect("removed");
    until(|| readiness(&server), |(_, said)| said.contains("store_replaced")).await;
    disk.set(Field::SyncError, 0);
    // The server tries every second; no event reports that it fails.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(put(&server, "c").await, replaced());
    assert_eq!(readiness(&server).await.0, 503);
    assert_eq!(disk.said("writing goes well again"), 0);
}

/// Returns the processor time of the server's writer, in ticks.
fn writer_ticks(server: &Process) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs");
    let read = |path: PathBuf| fs::read_to_string(path).expect("it runs");
    let mut writers = threads
        .map(|thread| thread.expect("a thread").path())
        .filter(|thread| read(thread.join("comm")) == "store-writer\n");
    let stat = read(writers.next().expect("a writer").join("stat"));
    let fields = stat.split_whitespace().skip(13).take(2);
    fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_whose_files_were_replaced_rests() {
    let disk = Disk::new();
    let server = disk.server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    // A second after the delete there is room to give back.
    let deleted = server.post("/batch/delete", json!({"jobs": [{"id": "a"}]})).await;
    assert_eq!(deleted.expect("an answer").0, 200);
    fs::remove_dir_all(data(&disk)).expect("removed");
    assert_eq!(put(&server, "b").await, replaced());
    let before = writer_ticks(&server);
    tokio::time::sleep(Duration::from_secs(3)).await; // no event reports that the writer rests
    let ticks = writer_ticks(&server) - before;
    assert!(ticks < 20, "{ticks} ticks without any work");
}
