//! A disk without any room: calls that free room succeed, and the server starts.
//!
//! Developers can run the long test on a real disk, a small file system. Run `mount -t tmpfs -o
//! size=64m none DIR`, then the test with the environment variables `FULL_DISK=DIR`,
//! `RELEASES=1000000` and `KILLS=20`. With `NEIGHBOUR=1`, another thread takes all room that is
//! freed on this disk.

use std::fs;
use std::{sync::atomic::AtomicU64, thread};

use tempfile::NamedTempFile;
use tokio::sync::Mutex;

use crate::disk::prelude::*;

/// Capacity below the space in use, so that no write can extend a file, even after room was freed.
const NO_ROOM_KIB: i32 = 1;
const MIB: i32 = 1024;
const TEXT: usize = 300;

async fn post(server: &Process, path: &str, body: Value) -> (u16, Value) {
    server.post(path, body).await.expect("an answer")
}

async fn assert_all(status: u16, server: &Process, path: &str, jobs: &[Value]) {
    let (whole, answer) = post(server, path, json!({"jobs": jobs})).await;
    assert_eq!(whole, 200, "{path}: {answer}");
    let results = answer["results"].as_array().expect("results");
    for result in results {
        assert_eq!(result["status"], status, "{path}: {result}");
    }
    assert_eq!(results.len(), jobs.len());
}

fn ids(topic: &str, numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|n| json!({"id": format!("{topic}:{n}")})).collect()
}

async fn put_all(server: &Process, topic: &str, count: usize) {
    let job = |n| json!({"topic": topic, "id": format!("{topic}:{n}"), "body": "x".repeat(TEXT)});
    assert_all(201, server, "/batch/jobs", &(0..count).map(job).collect::<Vec<_>>()).await;
}

async fn pop(server: &Process, topic: &str, count: usize) -> Vec<Value> {
    let (status, answer) = server.get(&format!("/topics/{topic}/pop?ttr=1h&count={count}")).await;
    assert_eq!(status, 200, "{answer}");
    let jobs = answer["jobs"].as_array().expect("jobs");
    jobs.iter().map(|j| json!({"id": j["id"], "reservation": j["reservation"]})).collect()
}

async fn count_jobs(server: &Process, topic: &str) -> u64 {
    let (_, peek) = server.get(&format!("/topics/{topic}")).await;
    ["delayed", "ready", "reserved", "dead"].iter().filter_map(|state| peek[state].as_u64()).sum()
}

/// Fills the disk with jobs: most to be popped, some to be deleted, some to be purged. Returns the
/// ids of the accepted jobs.
async fn fill(server: &Process) -> HashSet<String> {
    let mut taken = HashSet::new();
    for batch in 0.. {
        let topic = |n| match n {
            ..80 => "fill".to_owned(),
            80..98 => "kept".to_owned(),
            _ => format!("purge{}", batch % 50),
        };
        let id = |n| format!("{}:{}", topic(n), batch * 100 + n);
        let put = |n| json!({"topic": topic(n), "id": id(n), "body": "x".repeat(TEXT), "max_attempts": 0});
        let jobs: Vec<Value> = (0..100).map(put).collect();
        let (status, answer) = post(server, "/batch/jobs", json!({"jobs": jobs})).await;
        if (status, &answer["code"]) == (507, &json!("store_full")) {
            return taken;
        }
        assert_eq!(status, 200, "{answer}");
        for (n, result) in answer["results"].as_array().expect("results").iter().enumerate() {
            match result["status"].as_u64() {
                Some(201) => assert!(taken.insert(id(n))),
                _ => {
                    assert_eq!(
                        (&result["status"], &result["code"]),
                        (&json!(507), &json!("store_full"))
                    );
                    return taken;
                }
            }
        }
    }
    unreachable!("the disk fills up before numbers end")
}

fn stop(mut server: Process) {
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_can_be_removed_while_another_process_takes_all_room() {
    let disk = Disk::new();
    let mut server = disk.server().await;
    put_all(&server, "a", 1000).await;
    put_all(&server, "b", 1000).await;
    let held = pop(&server, "a", 60).await;
    disk.set(Field::FullError, ENOSPC);
    disk.set(Field::CapacityKib, 40 * MIB);
    let filled = fill(&server).await.len() as u64;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    assert_all(204, &server, "/batch/finish", &held[..20]).await;
    let text = "e".repeat(TEXT);
    let release = |job: &Value| json!({"id": job["id"], "reservation": job["reservation"], "error": text, "delay": 3600});
    assert_all(
        200,
        &server,
        "/batch/release",
        &held[20..40].iter().map(release).collect::<Vec<_>>(),
    )
    .await;
    // The deleted jobs are scattered, so that each delete changes other pages.
    let scattered: Vec<Value> = (0..250).map(|n| json!({"id": format!("b:{}", n * 4)})).collect();
    for restart in 0..4 {
        if restart % 2 == 0 {
            server.kill();
        } else {
            stop(server);
        }
        server = disk.server().await;
        assert_all(200, &server, "/batch/delete", &scattered[restart * 60..][..60]).await;
        assert_all(204, &server, "/batch/finish", &held[40 + restart * 5..][..5]).await;
        assert_eq!(post(&server, "/jobs", json!({"topic": "t"})).await.0, 507);
    }
    assert_eq!(count_jobs(&server, "a").await, 960);
    assert_eq!(count_jobs(&server, "b").await, 760);
    let purged = server.delete("/topics/b/jobs").await;
    assert_eq!((purged, count_jobs(&server, "b").await), (Some(200), 0));
    let mut found = count_jobs(&server, "fill").await + count_jobs(&server, "kept").await;
    for topic in 0..50 {
        found += count_jobs(&server, &format!("purge{topic}")).await;
    }
    assert_eq!(found, filled, "jobs were lost");
    assert_eq!(disk.said("nothing can be written"), 0);

    disk.set(Field::CapacityKib, 0);
    let put = || async { post(&server, "/jobs", json!({"topic": "t"})).await.0 };
    until(put, |status| *status == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_move_while_another_process_takes_all_room() {
    let disk = Disk::new();
    let mut server = disk.server().await;
    for topic in ["a", "b"] {
        let defaults = json!({"dead_to": "failed", "max_attempts": 1});
        assert_eq!(server.put(&format!("/topics/{topic}"), defaults).await, Some(200));
    }
    put_all(&server, "a", 100).await;
    // These jobs expire before their first pop, when the disk is already full.
    let expires = |n| json!({"topic": "b", "id": format!("b:{n}"), "expires_after": 6});
    assert_all(201, &server, "/batch/jobs", &(0..200).map(expires).collect::<Vec<_>>()).await;
    let held = pop(&server, "a", 100).await;
    disk.set(Field::FullError, ENOSPC);
    disk.set(Field::CapacityKib, 20 * MIB);
    fill(&server).await;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    let text = "e".repeat(TEXT);
    let release =
        |job: &Value| json!({"id": job["id"], "reservation": job["reservation"], "error": text});
    for jobs in held.chunks(25) {
        let released: Vec<Value> = jobs.iter().map(release).collect();
        assert_all(200, &server, "/batch/release", &released).await;
    }
    until(|| count_jobs(&server, "failed"), |moved| *moved == 300).await;
    server.kill();
    server = disk.server().await;
    assert_eq!(count_jobs(&server, "failed").await, 300);
    let (_, job) = server.get("/jobs/b:7").await;
    assert_eq!((&job["error"], &job["dead_from"]), (&json!("expired"), &json!("b")));
    assert_eq!(disk.said("nothing can be written"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_use_the_room_of_deleted_jobs_in_the_file() {
    let disk = Disk::new();
    let server = disk.server().await;
    put_all(&server, "a", 1000).await;
    put_all(&server, "b", 1000).await;
    disk.set(Field::FullError, ENOSPC);
    disk.set(Field::CapacityKib, 20 * MIB);
    fill(&server).await;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    for from in (0..1000).step_by(100) {
        assert_all(200, &server, "/batch/delete", &ids("a", from..from + 100)).await;
    }
    // After a second without deletes, the server returns free pages to the disk, which has no room
    // for them any more. No event reports the end of this: the server leaves an unknown number of
    // free pages in the file.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let text = "e".repeat(TEXT);
    for _ in 0..10 {
        let held = pop(&server, "b", 100).await;
        assert_eq!(held.len(), 100);
        let release = |job: &Value| json!({"id": job["id"], "reservation": job["reservation"], "error": text, "delay": 3600});
        assert_all(200, &server, "/batch/release", &held.iter().map(release).collect::<Vec<_>>())
            .await;
    }
    assert_eq!(pop(&server, "fill", 100).await.len(), 100);
    assert_eq!(post(&server, "/jobs", json!({"topic": "t"})).await.0, 507);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_a_disk_that_was_filled_while_it_was_down() {
    let disk = Disk::new();
    let server = disk.server().await;
    put_all(&server, "a", 500).await;
    stop(server);
    disk.set(Field::FullError, ENOSPC);
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    for killed in [true, false] {
        let mut server = disk.server().await;
        let from = usize::from(!killed) * 200;
        assert_all(200, &server, "/batch/delete", &ids("a", from..from + 200)).await;
        assert_eq!(post(&server, "/jobs", json!({"topic": "t"})).await.0, 507);
        if killed { server.kill() } else { stop(server) }
    }
    let server = disk.server().await;
    assert_eq!(count_jobs(&server, "a").await, 100);
}

/// A disk, either the shim's or a real one, and the load on it.
struct Load {
    disk: Disk,
    /// Log of the servers on a real disk. It is on another disk, which does not fill up.
    log: NamedTempFile,
    real: Option<PathBuf>,
    /// Counts of the consumers' calls to all servers.
    released: AtomicU64,
    refused: AtomicU64,
    finished: AtomicU64,
    deleted: AtomicU64,
    purged: Mutex<Vec<String>>,
    /// Jobs that were finished or deleted. A job whose call got no answer is in `in_doubt` instead.
    gone: Mutex<HashSet<String>>,
    in_doubt: Mutex<HashSet<String>>,
}

fn variable_or(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

impl Load {
    async fn server(&self) -> Process {
        let Some(dir) = &self.real else { return self.disk.server().await };
        let mut command = program(dir, &["--store", "file:./data"]);
        let log = File::options().create(true).append(true).open(self.log.path());
        command.stderr(log.expect("a log"));
        Process::spawn_with_log(free_port(), command).await
    }

    /// Removes one job with a call. Without an answer, the job is in doubt.
    async fn remove(&self, server: &Process, path: &str, job: Value, ok: u16) -> Option<()> {
        let id = job["id"].as_str().expect("an id").to_owned();
        let Some((status, answer)) = server.post(path, json!({"jobs": [job]})).await else {
            self.in_doubt.lock().await.insert(id);
            return None;
        };
        let result = &answer["results"][0];
        assert_eq!((status, &result["status"]), (200, &json!(ok)), "{path}: {answer}");
        self.gone.lock().await.insert(id);
        Some(())
    }

    /// Pops and releases jobs with error texts, and sometimes finishes and deletes one, until the
    /// server is killed.
    async fn consume(&self, server: &Process, purge: &str, victims: &[String]) -> Option<()> {
        let text = "e".repeat(TEXT);
        let mut victims = victims.iter();
        for turn in 0.. {
            let path = format!("{}/topics/fill/pop?ttr=10s&count=100", server.base);
            let answer = crate::support::http::get(path).await.ok()?;
            let status = answer.status().as_u16();
            let answer: Value = answer.json().await.ok()?;
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            match status {
                200 => {}
                507 => drop(self.refused.fetch_add(1, Ordering::SeqCst)),
                // On a busy machine, the disk may block for longer than the server waits.
                503 if answer["applied"] == "no" => {}
                _ => panic!("{status}: {answer}"),
            }
            let mut held: Vec<Value> = jobs
                .iter()
                .map(|job| json!({"id": job["id"], "reservation": job["reservation"]}))
                .collect();
            if turn % 20 == 0
                && let Some(job) = held.pop()
            {
                self.remove(server, "/batch/finish", job, 204).await?;
                self.finished.fetch_add(1, Ordering::SeqCst);
            }
            if (turn % 10 == 3 || status == 507)
                && let Some(id) = victims.next()
            {
                self.remove(server, "/batch/delete", json!({"id": id}), 200).await?;
                self.deleted.fetch_add(1, Ordering::SeqCst);
            }
            if turn == 5 {
                assert_eq!(server.delete(&format!("/topics/{purge}/jobs")).await?, 200);
                self.purged.lock().await.push(purge.to_owned());
            }
            for job in &mut held {
                job["error"] = json!(text);
                job["delay"] = json!(0);
            }
            if held.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await; // other consumers hold all jobs
                continue;
            }
            let (status, answer) = server.post("/batch/release", json!({"jobs": held})).await?;
            assert_eq!(status, 200, "{answer}");
            for result in answer["results"].as_array().expect("results") {
                assert_eq!(result["status"], 200, "{result}");
            }
            self.released.fetch_add(held.len() as u64, Ordering::SeqCst);
        }
        Some(())
    }
}

/// Takes all room that is freed on a real disk until `stop` is set.
fn take_freed_room(dir: PathBuf, stop: Arc<AtomicBool>) {
    let mut file = File::create(dir.join("neighbour")).expect("created");
    while !stop.load(Ordering::SeqCst) {
        while file.write_all(&[7; 4096]).is_ok() {}
        thread::sleep(Duration::from_micros(200)); // no event reports free room
    }
    drop(file);
    fs::remove_file(dir.join("neighbour")).expect("removed");
}

async fn drain(server: &Process, topic: &str) -> HashSet<String> {
    let mut all = HashSet::new();
    loop {
        let pop = format!("/topics/{topic}/pop?count=100&ttr=1h&wait=1s");
        let (status, answer) = server.get(&pop).await;
        if status == 507 {
            // Deleting listed jobs frees the room that pops need.
            let (_, page) = server.get(&format!("/topics/{topic}/jobs?state=ready&limit=50")).await;
            let jobs: Vec<Value> = page["jobs"]
                .as_array()
                .expect("jobs")
                .iter()
                .map(|job| json!({"id": job["id"]}))
                .collect();
            assert_all(200, server, "/batch/delete", &jobs).await;
            all.extend(jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()));
            continue;
        }
        assert_eq!(status, 200, "{answer}");
        let jobs = answer["jobs"].as_array().expect("jobs");
        if jobs.is_empty() {
            if count_jobs(server, topic).await == 0 {
                return all;
            }
            // Jobs that a killed server delivered are reserved until their TTRs end.
            continue;
        }
        let held: Vec<Value> =
            jobs.iter().map(|j| json!({"id": j["id"], "reservation": j["reservation"]})).collect();
        assert_all(204, server, "/batch/finish", &held).await;
        for job in jobs {
            assert!(
                all.insert(job["id"].as_str().expect("an id").to_owned()),
                "a job was delivered twice"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_with_texts_leave_room_for_finishes_and_deletes() {
    let real = std::env::var_os("FULL_DISK").map(PathBuf::from);
    let (releases, kills) = (variable_or("RELEASES", 20_000), variable_or("KILLS", 3));
    let load = Arc::new(Load {
        disk: Disk::new(),
        log: NamedTempFile::new().expect("a log"),
        real,
        released: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        finished: AtomicU64::new(0),
        deleted: AtomicU64::new(0),
        purged: Mutex::default(),
        gone: Mutex::default(),
        in_doubt: Mutex::default(),
    });
    load.disk.set(Field::FullError, ENOSPC);
    load.disk.set(Field::CapacityKib, 26 * MIB);
    let first = load.server().await;
    let taken = fill(&first).await;
    let mut server = Arc::new(first);
    let is_over = Arc::new(AtomicBool::new(false));
    let competitor = load.real.clone().filter(|_| variable_or("NEIGHBOUR", 0) > 0).map(|dir| {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || take_freed_room(dir, is_over))
    });
    let kept: Vec<&String> = taken.iter().filter(|id| id.starts_with("kept")).collect();
    let rounds = kills + 1;
    for round in 0..rounds {
        let mut consumers = JoinSet::new();
        let part = kept.len() / usize::try_from(rounds * 4).expect("a small number");
        for consumer in 0..4 {
            let (load, server) = (Arc::clone(&load), Arc::clone(&server));
            let at = usize::try_from(round * 4).expect("a small number") + consumer;
            let victims: Vec<String> = kept[at * part..][..part].iter().copied().cloned().collect();
            let purge = format!("purge{}", at % 50);
            consumers.spawn(async move { load.consume(&server, &purge, &victims).await });
        }
        let quota = releases * (round + 1) / rounds;
        while load.released.load(Ordering::SeqCst) < quota && !consumers.is_empty() {
            tokio::select! {
                ended = consumers.join_next() => panic!("a consumer ended: {ended:?}"),
                () = tokio::time::sleep(Duration::from_millis(5)) => {} // the load must run
            }
        }
        server.signal("-KILL");
        while let Some(ended) = consumers.join_next().await {
            ended.expect("no assertion fails");
        }
        Arc::into_inner(server).expect("all consumers have ended").wait();
        server = Arc::new(load.server().await);
    }
    let mut drained = drain(&server, "fill").await;
    drained.extend(drain(&server, "kept").await);
    let (gone, in_doubt) = (load.gone.lock().await, load.in_doubt.lock().await);
    let lost: Vec<&String> = taken
        .iter()
        .filter(|id| !id.starts_with("purge"))
        .filter(|id| !drained.contains(*id) && !gone.contains(*id) && !in_doubt.contains(*id))
        .collect();
    assert!(lost.is_empty(), "lost {} of {}: {lost:?}", lost.len(), taken.len());
    let returned = drained.iter().filter(|id| gone.contains(*id)).count();
    assert_eq!(returned, 0, "finished or deleted jobs were delivered again");
    let purged = load.purged.lock().await;
    for topic in &*purged {
        assert_eq!(count_jobs(&server, topic).await, 0, "{topic} has jobs although it was purged");
    }
    is_over.store(true, Ordering::SeqCst);
    if let Some(competitor) = competitor {
        competitor.join().expect("the thread ends");
    }
    load.disk.set(Field::CapacityKib, 0);
    let put = || async { post(&server, "/jobs", json!({"topic": "t"})).await.0 };
    until(put, |status| *status == 201).await;
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    println!(
        "{} jobs filled the disk; {} releases with texts, {} pops refused, {} finished, {} deleted, \
         {} purges, {} kills; {} jobs were left, none lost",
        taken.len(),
        count(&load.released),
        count(&load.refused),
        count(&load.finished),
        count(&load.deleted),
        purged.len(),
        rounds,
        drained.len()
    );
}
