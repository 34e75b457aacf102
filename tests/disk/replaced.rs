//! Files that are taken away under a running server.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::{
    disk::{Disk, readiness, until},
    process::Process,
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
async fn what_was_in_a_log_that_was_removed_is_there_after_an_orderly_end() {
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
async fn a_server_whose_files_were_replaced_leaves_those_of_the_next_one_alone() {
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
    let second = crate::process::program(&disk.root(), &["--store", "file:./state/data"]).output();
    let second = second.expect("the program runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another delay-queue"));
    assert_eq!(put(&server, "b").await.0, 201);
}
