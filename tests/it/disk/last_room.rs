//! A disk without any room: calls that free room succeed, and the server starts.

use tokio::sync::Mutex;

use crate::disk::prelude::*;

/// Capacity below the space in use, so that no write can extend a file, even after room was freed.
const NO_ROOM_KIB: i32 = 1;
const MIB: i32 = 1024;
/// Number of releases with texts, and of kills meanwhile.
const RELEASES: usize = 20_000;
const KILLS: usize = 4;

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
            if result["status"] != 201 {
                assert!(result["status"] == 507 && result["code"] == "store_full", "{result}");
                return taken;
            }
            assert!(taken.insert(id(n)));
        }
    }
    unreachable!("the disk fills up before numbers end")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_can_be_removed_while_another_process_takes_all_room() {
    let (disk, mut server) = Disk::with_server().await;
    put_all(&server, "a", 1000, TEXT).await;
    put_all(&server, "b", 1000, TEXT).await;
    let held = pop(&server, "a", 60).await;
    disk.limit(40 * MIB);
    let filled = fill(&server).await.len() as u64;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    assert_all(204, &server, "/batch/finish", &held[..20]).await;
    release_all(&server, &held[20..40], 3600).await;
    for restart in 0..4 {
        if restart % 2 == 0 {
            server.kill()
        } else {
            server.stop()
        }
        server = disk.server().await;
        // The deleted jobs are scattered, so that each delete changes other pages.
        let scattered = (restart * 60..restart * 60 + 60).map(|n| id("b", n * 4));
        delete_all(&server, scattered).await;
        assert_all(204, &server, "/batch/finish", &held[40 + restart * 5..][..5]).await;
        assert_eq!(put_one(&server).await, 507);
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
    until_puts_are_accepted(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_move_while_another_process_takes_all_room() {
    let (disk, mut server) = Disk::with_server().await;
    for topic in ["a", "b"] {
        let defaults = json!({"dead_to": "failed", "max_attempts": 1});
        assert_eq!(server.put(&format!("/topics/{topic}"), defaults).await, Some(200));
    }
    put_all(&server, "a", 100, TEXT).await;
    // These jobs expire before their first pop, when the disk is already full.
    let expires = |n| json!({"topic": "b", "id": id("b", n), "expires_after": 6});
    assert_all(201, &server, "/batch/jobs", &(0..200).map(expires).collect::<Vec<_>>()).await;
    let held = pop(&server, "a", 100).await;
    disk.limit(20 * MIB);
    fill(&server).await;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    for jobs in held.chunks(25) {
        release_all(&server, jobs, 0).await;
    }
    until(|| count_jobs(&server, "failed"), |moved| *moved == 300).await;
    server.kill();
    server = disk.server().await;
    assert_eq!(count_jobs(&server, "failed").await, 300);
    let (_, job) = server.get("/jobs/b:0007").await;
    assert_eq!((&job["error"], &job["dead_from"]), (&json!("expired"), &json!("b")));
    assert_eq!(disk.said("nothing can be written"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_use_the_room_of_deleted_jobs_in_the_file() {
    let (disk, server) = Disk::with_server().await;
    put_all(&server, "a", 1000, TEXT).await;
    put_all(&server, "b", 1000, TEXT).await;
    disk.limit(20 * MIB);
    fill(&server).await;
    disk.set(Field::CapacityKib, NO_ROOM_KIB);
    for from in (0..1000).step_by(100) {
        delete_all(&server, (from..from + 100).map(|n| id("a", n))).await;
    }
    // After a second without deletes, the server returns free pages to the disk, which has no room
    // for them any more. No event reports the end of this: the server leaves an unknown number of
    // free pages in the file.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for _ in 0..10 {
        let held = pop(&server, "b", 100).await;
        assert_eq!(held.len(), 100);
        release_all(&server, &held, 3600).await;
    }
    assert_eq!(pop(&server, "fill", 100).await.len(), 100);
    assert_eq!(put_one(&server).await, 507);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_a_disk_that_was_filled_while_it_was_down() {
    let (disk, mut server) = Disk::with_server().await;
    put_all(&server, "a", 500, TEXT).await;
    server.stop();
    disk.limit(NO_ROOM_KIB);
    for killed in [true, false] {
        let mut server = disk.server().await;
        let from = usize::from(!killed) * 200;
        delete_all(&server, (from..from + 200).map(|n| id("a", n))).await;
        assert_eq!(put_one(&server).await, 507);
        if killed { server.kill() } else { server.stop() }
    }
    let server = disk.server().await;
    assert_eq!(count_jobs(&server, "a").await, 100);
}

/// Effects of the consumers' calls to all servers.
#[derive(Default)]
struct Load {
    released: AtomicUsize,
    purged: Mutex<Vec<String>>,
    /// Jobs that were finished or deleted. A job whose call got no answer is in `in_doubt` instead.
    gone: Mutex<HashSet<String>>,
    in_doubt: Mutex<HashSet<String>>,
}

fn id_of(job: &Value) -> String {
    job["id"].as_str().expect("an id").to_owned()
}

impl Load {
    /// Removes one job with a call. Without an answer, the job is in doubt.
    async fn remove(&self, server: &Process, path: &str, job: Value, ok: u16) -> Option<()> {
        let id = id_of(&job);
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
            match status {
                200 | 507 => {}
                // On a busy machine, the disk may block for longer than the server waits.
                503 if answer["applied"] == "no" => {}
                _ => panic!("{status}: {answer}"),
            }
            let mut held = holds(&answer);
            if turn % 20 == 0
                && let Some(job) = held.pop()
            {
                self.remove(server, "/batch/finish", job, 204).await?;
            }
            if (turn % 10 == 3 || status == 507)
                && let Some(id) = victims.next()
            {
                self.remove(server, "/batch/delete", json!({"id": id}), 200).await?;
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
            self.released.fetch_add(held.len(), Ordering::SeqCst);
        }
        Some(())
    }
}

async fn drain(server: &Process, topic: &str) -> HashSet<String> {
    let mut all = HashSet::new();
    loop {
        let pop = format!("/topics/{topic}/pop?count=100&ttr=1h&wait=1s");
        let (status, answer) = server.get(&pop).await;
        if status == 507 {
            // Deleting listed jobs frees the room that pops need.
            let (_, page) = server.get(&format!("/topics/{topic}/jobs?state=ready&limit=50")).await;
            let ids: Vec<String> = holds(&page).iter().map(id_of).collect();
            delete_all(server, ids.iter().cloned()).await;
            all.extend(ids);
            continue;
        }
        assert_eq!(status, 200, "{answer}");
        let held = holds(&answer);
        if held.is_empty() {
            if count_jobs(server, topic).await == 0 {
                return all;
            }
            // Jobs that a killed server delivered are reserved until their TTRs end.
            continue;
        }
        assert_all(204, server, "/batch/finish", &held).await;
        for job in &held {
            assert!(all.insert(id_of(job)), "a job was delivered twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_with_texts_leave_room_for_finishes_and_deletes() {
    let (disk, load) = (Disk::new(), Arc::new(Load::default()));
    disk.limit(26 * MIB);
    let mut server = Arc::new(disk.server().await);
    let taken = fill(&server).await;
    let kept: Vec<&String> = taken.iter().filter(|id| id.starts_with("kept")).collect();
    let part = kept.len() / (KILLS * 4);
    for round in 0..KILLS {
        let mut consumers = JoinSet::new();
        for at in round * 4..round * 4 + 4 {
            let (load, server) = (Arc::clone(&load), Arc::clone(&server));
            let victims: Vec<String> = kept[at * part..][..part].iter().copied().cloned().collect();
            let purge = format!("purge{}", at % 50);
            consumers.spawn(async move { load.consume(&server, &purge, &victims).await });
        }
        let quota = RELEASES * (round + 1) / KILLS;
        while load.released.load(Ordering::SeqCst) < quota {
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
        server = Arc::new(disk.server().await);
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
    assert!(gone.is_disjoint(&drained), "finished or deleted jobs were delivered again");
    for topic in &*load.purged.lock().await {
        assert_eq!(count_jobs(&server, topic).await, 0, "{topic} has jobs although it was purged");
    }
    disk.set(Field::CapacityKib, 0);
    until_puts_are_accepted(&server).await;
}
