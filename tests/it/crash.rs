//! The real binary under `kill -9`, on both stores: no acknowledged job is lost, and no finished or
//! deleted job returns.

use tokio::sync::Mutex;

use crate::prelude::*;
use crate::support::stopwatch::Stopwatch;

/// The store of a server, and its folder. It outlives the server.
struct Storage {
    dir: TempDir,
    store: String,
    redis: Option<Redis>,
}

impl Storage {
    fn file() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        Self { dir, store: "file:./data".to_owned(), redis: None }
    }

    fn redis() -> Self {
        // With `everysec`, a Redis that is killed while the disk is busy loses acknowledged writes.
        let redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let dir = tempfile::tempdir().expect("a temporary folder");
        Self { dir, store: redis.url(), redis: Some(redis) }
    }

    async fn server(&self) -> Process {
        Process::start(self.dir.path(), &["--store", &self.store]).await
    }
}

/// Pops and finishes jobs until none arrives for the time `idle`. Returns the ids in the order of
/// delivery.
async fn drain(server: &Process, topic: &str, idle: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let (_, answer) = server.get(&format!("/topics/{topic}/pop?count=100&wait={idle}")).await;
        let jobs = answer["jobs"].as_array().expect("jobs");
        if jobs.is_empty() {
            return all;
        }
        let item = |job: &Value| json!({"id": job["id"], "reservation": job["reservation"]});
        let finishes: Vec<Value> = jobs.iter().map(item).collect();
        let (status, done) =
            server.post("/batch/finish", json!({"jobs": finishes})).await.expect("an answer");
        assert_eq!(status, 200);
        for result in done["results"].as_array().expect("results") {
            assert_eq!(result["status"], 204, "{result}");
        }
        all.extend(jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()));
    }
}

/// Puts 10,000 jobs from 8 clients. Kills the server once 3,000 are acknowledged, which aborts all
/// calls in progress, and then calls `crash`. Returns the acknowledged ids.
async fn puts_until(server: Process, crash: impl FnOnce()) -> HashSet<String> {
    const JOBS: usize = 10_000;
    let server = Arc::new(server);
    let acknowledged = Arc::new(Mutex::new(HashSet::new()));
    let count = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let (server, acknowledged) = (Arc::clone(&server), Arc::clone(&acknowledged));
        let count = Arc::clone(&count);
        clients.spawn(async move {
            for number in 0..JOBS / 8 {
                let id = format!("{client}:{number}");
                // Some jobs are due at once, and others later. Their bodies have different lengths.
                let delay = if number % 3 == 0 { 0.0 } else { 0.2 };
                let body = "x".repeat(number % 500);
                let put = json!({"topic": "t", "id": id, "delay": delay, "body": body});
                match server.post("/jobs", put).await {
                    Some((201, _)) => {
                        acknowledged.lock().await.insert(id);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    _ => return, // the crash
                }
            }
        });
    }
    while count.load(Ordering::SeqCst) < 3_000 {
        tokio::time::sleep(Duration::from_millis(1)).await; // the load must run
    }
    server.signal("-KILL");
    while clients.join_next().await.is_some() {}
    crash();
    let acknowledged = std::mem::take(&mut *acknowledged.lock().await);
    assert!(
        (3_000..JOBS).contains(&acknowledged.len()),
        "{} jobs were acknowledged before the crash; expected 3,000 to 10,000",
        acknowledged.len()
    );
    acknowledged
}

async fn acknowledged_jobs_survive_a_crash(storage: Storage) {
    let acknowledged = puts_until(storage.server().await, || {}).await;
    let server = storage.server().await;
    let drained = drain(&server, "t", "1s").await;
    let unique: HashSet<String> = drained.iter().cloned().collect();
    assert_eq!(unique.len(), drained.len(), "a job was delivered twice");
    let lost: Vec<_> = acknowledged.difference(&unique).collect();
    assert!(lost.is_empty(), "lost {} of {}: {lost:?}", lost.len(), acknowledged.len());
    // The last put of each client may have been carried out without an acknowledgement.
    assert!(unique.len() <= acknowledged.len() + 8);
}

async fn finished_and_deleted_jobs_do_not_return_after_a_crash(storage: Storage) {
    let mut server = storage.server().await;
    let jobs: Vec<_> = (0..300).map(|n| json!({"topic": "t", "id": format!("job:{n}")})).collect();
    server.post("/batch/jobs", json!({"jobs": jobs})).await.expect("an answer");
    let mut gone = HashSet::new();
    for _ in 0..100 {
        let (_, popped) = server.get("/topics/t/pop").await;
        let job = &popped["jobs"][0];
        let id = job["id"].as_str().expect("an id").to_owned();
        let finish = json!({"reservation": job["reservation"]});
        let (status, _) =
            server.post(&format!("/jobs/{id}/finish"), finish).await.expect("an answer");
        assert_eq!(status, 204);
        gone.insert(id);
    }
    let (_, popped) = server.get("/topics/t/pop?ttr=1h").await;
    let item = popped["jobs"][0].clone();
    let left: Vec<String> =
        (0..300).map(|n| format!("job:{n}")).filter(|id| !gone.contains(id)).collect();
    let deletes: Vec<_> = left.iter().filter(|id| **id != item["id"]).take(50).collect();
    let bodies: Vec<_> = deletes.iter().map(|id| json!({"id": id})).collect();
    server.post("/batch/delete", json!({"jobs": bodies})).await.expect("an answer");
    gone.extend(deletes.into_iter().cloned());
    server.kill();

    let server = storage.server().await;
    let drained: HashSet<String> = drain(&server, "t", "200ms").await.into_iter().collect();
    assert_eq!(
        drained.len(),
        300 - 150 - 1,
        "finished, deleted or reserved jobs were delivered, or others are missing"
    );
    assert!(drained.is_disjoint(&gone));
    // The reservation survives the crash too.
    let path = format!("/jobs/{}/finish", item["id"].as_str().expect("an id"));
    let finish = json!({"reservation": item["reservation"]});
    assert_eq!(server.post(&path, finish).await.expect("an answer").0, 204);
}

async fn a_reserved_job_is_ready_again_after_a_crash(storage: Storage) {
    let mut server = storage.server().await;
    server.post("/jobs", json!({"topic": "t", "id": "a", "ttr": 1})).await.expect("an answer");
    let (_, popped) = server.get("/topics/t/pop").await;
    assert_eq!(popped["jobs"][0]["attempt"], 1);
    server.kill();
    let server = storage.server().await;
    let (_, popped) = server.get("/topics/t/pop?wait=10s").await;
    assert_eq!(popped["jobs"][0]["attempt"], 2, "{popped}");
}

macro_rules! on_both {
    ($($case:ident),+) => {$(
        mod $case {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_file() {
                super::$case(super::Storage::file()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_redis() {
                super::$case(super::Storage::redis()).await;
            }
        }
    )+};
}

on_both!(
    acknowledged_jobs_survive_a_crash,
    finished_and_deleted_jobs_do_not_return_after_a_crash,
    a_reserved_job_is_ready_again_after_a_crash
);

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_killed_under_load_loses_no_acknowledged_job() {
    let mut storage = Storage::redis();
    let server = storage.server().await;
    let redis = storage.redis.as_mut().expect("a Redis");
    let acknowledged = puts_until(server, || redis.kill()).await;
    redis.resume();
    let server = storage.server().await;
    let drained: HashSet<String> = drain(&server, "t", "1s").await.into_iter().collect();
    let lost = acknowledged.difference(&drained).count();
    assert_eq!(lost, 0, "{lost} of {} acknowledged jobs were lost", acknowledged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_delivers_the_jobs_of_a_killed_server() {
    let storage = Storage::redis();
    let (mut first, second) = (storage.server().await, storage.server().await);
    for number in 0..50 {
        let put = json!({"topic": "t", "id": format!("job:{number}"), "delay": 0.4});
        first.post("/jobs", put).await.expect("an answer");
    }
    first.kill();
    let killed_at = Stopwatch::start();
    let drained = drain(&second, "t", "10s").await;
    assert_eq!(drained.len(), 50);
    // Jobs are due within 0.4 s and found within `timer.poll_interval` (0.5 s). The drain ends
    // after 10 s without a job.
    assert!(killed_at.elapsed() < scaled(Duration::from_secs(40)), "{:?}", killed_at.elapsed());
}
