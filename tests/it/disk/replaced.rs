//! Files that are removed or replaced while a server runs on them.

use crate::disk::prelude::*;

async fn put(server: &Process, id: &str) -> (u16, String) {
    let (status, answer) = post(server, "/jobs", json!({"topic": "t", "id": id})).await;
    (status, answer["code"].as_str().unwrap_or_default().to_owned())
}

fn replaced() -> (u16, String) {
    (503, "store_replaced".to_owned())
}

/// Starts a server, and puts a job into its store.
async fn with_a_job() -> (Disk, Process) {
    let (disk, server) = Disk::with_server().await;
    assert_eq!(put(&server, "a").await.0, 201);
    (disk, server)
}

fn remove_directory(data: &Path) {
    fs::remove_dir_all(data).expect("removed");
}

fn remove_log(data: &Path) {
    fs::remove_file(data.join("jobs.db-wal")).expect("removed");
}

fn replace_database(data: &Path) {
    fs::copy(data.join("jobs.db"), data.join("copy")).expect("copied");
    fs::rename(data.join("copy"), data.join("jobs.db")).expect("renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_or_replaced_file_is_noticed_by_the_next_put() {
    let all: [(_, fn(&Path)); 3] =
        [("folder", remove_directory), ("log", remove_log), ("database", replace_database)];
    for (name, replace) in all {
        println!("{name}");
        let (disk, server) = with_a_job().await;
        replace(&disk.data());
        assert_eq!(put(&server, "b").await, replaced(), "the first put afterwards was not refused");
        assert_eq!(put(&server, "c").await, replaced());
        let (status, said) = readiness(&server).await;
        assert!(status == 503 && said.contains("store_replaced"), "{status} {said}");
        assert_eq!(server.get("/jobs/a").await.0, 200, "the open file cannot be read");
        assert_eq!(disk.said("nothing can be written"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_saves_the_jobs_of_a_removed_log() {
    let (disk, mut server) = with_a_job().await;
    remove_log(&disk.data());
    assert_eq!(put(&server, "b").await, replaced());
    server.stop();
    assert_eq!(disk.server().await.get("/jobs/a").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_directory_is_noticed_without_a_put() {
    let (disk, server) = Disk::with_server().await;
    remove_directory(&disk.data());
    until(|| readiness(&server), |(status, _)| *status == 503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_touch_files_that_replaced_its_own() {
    let (disk, mut first) = with_a_job().await;
    remove_directory(&disk.data());
    let mut second = disk.server().await;
    assert_eq!(put(&second, "b").await.0, 201);
    assert_eq!(put(&first, "c").await, replaced());
    first.stop();
    assert_eq!(put(&second, "d").await.0, 201);
    second.kill();
    let again = disk.server().await;
    for (id, status) in [("a", 404), ("b", 200), ("c", 404), ("d", 200)] {
        assert_eq!(again.get(&format!("/jobs/{id}")).await.0, status, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_lock_file_admits_no_second_server() {
    let (disk, server) = with_a_job().await;
    fs::remove_file(disk.data().join("lock")).expect("removed");
    let second = program(&disk.root(), &["--store", "file:./state/data"]).output();
    let second = second.expect("the program runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another delay-queue"));
    assert_eq!(put(&server, "b").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_into_replaced_files_are_unknown() {
    // The server also checks its files every 100 ms and then refuses puts, so only some tries reach
    // the commit.
    for _ in 0..50 {
        let (disk, server) = with_a_job().await;
        remove_directory(&disk.data());
        let (status, answer) = post(&server, "/jobs", json!({"topic": "t", "id": "b"})).await;
        assert_eq!((status, &answer["code"]), (503, &json!("store_replaced")), "{answer}");
        let is_there = server.get("/jobs/b").await.0 == 200;
        assert_eq!(answer["applied"], if is_there { "unknown" } else { "no" });
        if is_there {
            return;
        }
    }
    panic!("in all tries, the server noticed the replaced files before the put was committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_writes_do_not_go_into_replaced_files() {
    let (disk, server) = with_a_job().await;
    disk.set(Field::SyncError, EIO);
    assert_eq!(put(&server, "b").await, (503, "store_unavailable".to_owned()));
    remove_directory(&disk.data());
    until(|| readiness(&server), |(_, said)| said.contains("store_replaced")).await;
    disk.set(Field::SyncError, 0);
    // The server retries every second. No event reports that a retry fails.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(put(&server, "c").await, replaced());
    assert_eq!(readiness(&server).await.0, 503);
    assert_eq!(disk.said("writes succeed again"), 0);
}

/// Returns the processor time of the server's writer, in ticks.
fn writer_ticks(server: &Process) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("the server runs");
    let read = |path: PathBuf| fs::read_to_string(path).expect("the server runs");
    let mut writers = threads
        .map(|thread| thread.expect("a thread").path())
        .filter(|thread| read(thread.join("comm")) == "store-writer\n");
    let stat = read(writers.next().expect("a writer").join("stat"));
    let fields = stat.split_whitespace().skip(13).take(2);
    fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_uses_no_cpu_after_its_files_were_replaced() {
    let (disk, server) = with_a_job().await;
    // A second after the delete, the writer has free room to return to the disk.
    delete_all(&server, ["a".to_owned()]).await;
    remove_directory(&disk.data());
    assert_eq!(put(&server, "b").await, replaced());
    let before = writer_ticks(&server);
    tokio::time::sleep(Duration::from_secs(3)).await; // no event reports that the writer is idle
    let ticks = writer_ticks(&server) - before;
    assert!(ticks < 20, "the idle writer has used {ticks} ticks of CPU");
}
