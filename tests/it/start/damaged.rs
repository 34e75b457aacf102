//! A data directory with damaged bytes. Wherever they are, the operator can repair the store, and
//! no job differs from the job that was put.

use std::{
    collections::HashMap,
    os::unix::fs::{MetadataExt, chown},
};

use crate::start::prelude::*;
use crate::support::file_log::{flip_in_page, versions_of, written};

/// Number of flipped bytes, each in a fresh copy. The environment variable `FLIPS` overrides it.
const FLIPS: u64 = 40;

fn flips() -> u64 {
    match std::env::var("FLIPS") {
        Ok(text) => text.parse().expect("FLIPS: a number"),
        Err(_) => FLIPS,
    }
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    program(dir, arguments).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for file in fs::read_dir(from).expect("a directory").map(|file| file.expect("a file")) {
        if file.file_type().expect("a type").is_file() && file.file_name() != "ballast" {
            fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
    }
}

/// Returns the jobs of an export by their ids.
fn exported(file: &Path) -> HashMap<String, Value> {
    let text = fs::read_to_string(file).expect("an export");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let jobs = lines.filter_map(|line| line.get("job").cloned());
    jobs.map(|job| (job["id"].as_str().expect("an id").to_owned(), job)).collect()
}

/// Starts a server, puts 60 jobs one after another, finishes 20 of them, and kills the server.
async fn create_store_and_kill(dir: &Path) {
    let mut server = Process::start(dir, &[]).await;
    for n in 0..60 {
        let put = json!({"topic": "t", "id": format!("job:{n}"), "body": n});
        assert_eq!(server.post("/jobs", put).await.expect("an answer").0, 201);
    }
    for _ in 0..20 {
        let (_, popped) = server.get("/topics/t/pop").await;
        let job = &popped["jobs"][0];
        let finish = json!({"reservation": job["reservation"]});
        let path = format!("/jobs/{}/finish", job["id"].as_str().expect("an id"));
        assert_eq!(server.post(&path, finish).await.expect("an answer").0, 204);
    }
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_the_log_is_reported_and_loses_no_job() {
    let place = tempfile::tempdir().expect("a temporary folder");
    create_store_and_kill(place.path()).await;
    let wal = place.path().join("data/jobs.db-wal");
    flip_the_middle(&wal);
    let log = fs::read(&wal).expect("the log");
    for arguments in [&["serve"][..], &["export", "a.ndjson"], &["doctor"]] {
        let refused = run(place.path(), arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let said = text(&refused);
        for word in ["jobs.db-wal", "damaged at byte", "acknowledged", "doctor --repair"] {
            assert!(said.contains(word), "{arguments:?}: {said}");
        }
    }
    assert_eq!(fs::read(&wal).expect("the log"), log, "the refused start has changed the log");

    let repaired = run(place.path(), &["doctor", "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    assert!(text(&repaired).contains("data/damaged-"), "{}", text(&repaired));
    let server = Process::start(place.path(), &[]).await;
    let (_, popped) = server.get("/topics/t/pop?count=100").await;
    let ids: Vec<&str> = popped["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["id"].as_str().expect("an id"))
        .collect();
    let expected: Vec<String> = (20..60).map(|n| format!("job:{n}")).collect();
    // Sound versions of the page followed the damaged one, so no job may be lost or returned.
    assert_eq!(ids, expected);
}

#[test]
fn a_repaired_store_keeps_owner_and_mode() {
    let place = tempfile::tempdir().expect("a temporary folder");
    create_token(place.path());
    let file = place.path().join("data/jobs.db");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    // Root may repair the store of another user, so this test changes the owner. Other users can
    // repair only their own files.
    if fs::metadata(&file).expect("the file").uid() == 0 {
        chown(&file, Some(65_532), Some(65_533)).expect("another owner");
    }
    let known = || {
        let file = fs::metadata(&file).expect("the file");
        (file.uid(), file.gid(), file.mode() & 0o777)
    };
    let before = known();
    let mut bytes = fs::read(&file).expect("the file");
    bytes[..4096].fill(0xa5);
    fs::write(&file, bytes).expect("written");
    let repaired = run(place.path(), &["doctor", "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    assert!(text(&repaired).contains("data/damaged-"), "{}", text(&repaired));
    assert_eq!(known(), before);
}

async fn status(server: &Process, token: Option<&str>) -> u16 {
    let request = crate::support::http::client().get(format!("{}/topics", server.base));
    let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    request.send().await.expect("an answer").status().as_u16()
}

fn create_token(dir: &Path) -> String {
    let create = ["token", "create", "--name", "the.only.one"];
    let made = run(
        dir,
        &[&create[..], &["--scope", "admin", "--scope", "put=*", "--scope", "read=*"]].concat(),
    );
    assert!(made.status.success(), "{}", text(&made));
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

/// Root pages of the tables of jobs and of tokens.
const POOL_PAGE: u32 = 4;
const TOKENS_PAGE: u32 = 9;

/// Creates a store whose log contains its only token, followed by 60 jobs. Returns the token.
async fn logged_token(dir: &Path) -> String {
    create_store_and_kill(dir).await;
    let token = create_token(dir);
    let mut server = Process::start(dir, &[]).await;
    let client = crate::support::http::client();
    assert_eq!(status(&server, Some(&token)).await, 200);
    let log = dir.join("data/jobs.db-wal");
    eventually!(
        !versions_of(&written(&log), TOKENS_PAGE).is_empty(),
        "the use of the token was not recorded"
    );
    for n in 0..60 {
        let put = json!({"topic": "t", "id": format!("more:{n}")}).to_string();
        let request = client.post(format!("{}/jobs", server.base)).body(put);
        let answer = request.bearer_auth(&token).send().await.expect("an answer");
        assert_eq!(answer.status(), 201);
    }
    server.kill();
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_store_requires_tokens_as_before() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let token = logged_token(place.path()).await;
    flip_in_page(&place.path().join("data/jobs.db-wal"), POOL_PAGE);
    let repaired = run(place.path(), &["doctor", "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    let server = Process::start(place.path(), &[]).await;
    assert_eq!([status(&server, None).await, status(&server, Some(&token)).await], [401, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_repaired_without_its_tokens_refuses_all_callers() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let token = logged_token(place.path()).await;
    flip_in_page(&place.path().join("data/jobs.db-wal"), TOKENS_PAGE);
    let repaired = text(&run(place.path(), &["doctor", "--repair"]));
    assert!(repaired.contains("revoke the token `lost-in-repair`"), "{repaired}");
    let mut server = Process::start(place.path(), &[]).await;
    assert_eq!([status(&server, None).await, status(&server, Some(&token)).await], [401, 401]);
    server.kill();
    let token = create_token(place.path());
    let revoked = run(place.path(), &["token", "revoke", "lost-in-repair"]);
    assert!(revoked.status.success(), "{}", text(&revoked));
    let server = Process::start(place.path(), &[]).await;
    assert_eq!([status(&server, None).await, status(&server, Some(&token)).await], [401, 200]);
}

/// Flips a byte in every copy of the token's name in the file.
fn flip_names(bytes: &mut [u8]) {
    let name = b"the.only.one";
    let places: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name)).collect();
    assert!(!places.is_empty(), "the file does not contain the token");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
}

/// Fills the page with all tokens with zeros.
fn empty_page(bytes: &mut [u8]) {
    bytes[8 * 4096..9 * 4096].fill(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_only_damaged_tokens_refuses_all_callers() {
    for (damage, cause) in
        [(flip_names as fn(&mut [u8]), "access tokens"), (empty_page, "`tokens`")]
    {
        let place = tempfile::tempdir().expect("a temporary folder");
        create_token(place.path());
        let file = place.path().join("data/jobs.db");
        let mut bytes = fs::read(&file).expect("the file");
        damage(&mut bytes);
        fs::write(&file, bytes).expect("written");
        let refused = run(place.path(), &["serve"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused).contains(cause), "{}", text(&refused));
        let said = text(&run(place.path(), &["doctor", "--repair"]));
        assert!(said.contains("all access tokens, or pages of them, are damaged"), "{said}");
        let server = Process::start(place.path(), &[]).await;
        assert_eq!(status(&server, None).await, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_and_metrics_show_a_row_of_an_unknown_job() {
    let place = tempfile::tempdir().expect("a temporary folder");
    create_store_with_all_states(place.path()).await;
    let file = place.path().join("data/jobs.db");
    let mut bytes = fs::read(&file).expect("the file");
    let row = b"job:7topic-1";
    // There are several copies of the row, since pages that were split contain old ones.
    let places: Vec<usize> =
        (0..bytes.len() - row.len()).filter(|&at| bytes[at..].starts_with(row)).collect();
    assert!(!places.is_empty(), "the file does not contain the job");
    places.into_iter().for_each(|at| bytes[at + 4] ^= 1);
    fs::write(&file, bytes).expect("written");
    let server = Process::start(place.path(), &[]).await;
    let ready = server.get("/readyz").await.1;
    assert_eq!(ready, json!({"status": "degraded", "reasons": ["jobs_unreadable"]}));
    let metrics = server.text("/metrics").await;
    assert!(metrics.contains("\ndelay_queue_store_unreadable 1\n"), "{metrics}");
    assert_eq!(
        server.get("/jobs/job:7").await.0,
        404,
        "the job is found although its id is damaged"
    );
    assert_eq!(server.get("/jobs/job:6").await.1["id"], "job:6");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_flipped_byte_can_be_repaired_and_changes_no_job() {
    let place = tempfile::tempdir().expect("a temporary folder");
    create_store_with_all_states(place.path()).await;
    let whole = run(place.path(), &["export", "whole.ndjson"]);
    assert!(whole.status.success(), "{}", text(&whole));
    let known = exported(&place.path().join("whole.ndjson"));
    assert_eq!(known.len(), 388);
    let file = fs::read(place.path().join("data/jobs.db")).expect("the file");
    let (mut complete, mut random) = (0, 88_172_645_463_325_252_u64);
    let (mut fewest, mut poorer, mut noticed) = (known.len(), 0, 0);
    let flips = flips();
    for flip in 0..flips {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = usize::try_from(random % file.len() as u64).expect("a place");
        let here = place.path().join(format!("flip-{flip}"));
        copy(&place.path().join("data"), &here.join("data"));
        let mut bytes = file.clone();
        bytes[at] ^= 1 << ((random >> 40) % 8);
        fs::write(here.join("data/jobs.db"), &bytes).expect("written");

        let plain = run(&here, &["export", "plain.ndjson"]);
        assert!(matches!(plain.status.code(), Some(0 | 1)), "byte {at}: {}", text(&plain));
        if plain.status.success() {
            complete += 1;
            check(&known, &exported(&here.join("plain.ndjson")), at, false);
        }
        let skipping = run(&here, &["export", "rest.ndjson", "--skip-damaged"]);
        assert!(skipping.status.success(), "byte {at}: {}", text(&skipping));
        let rest = exported(&here.join("rest.ndjson"));
        check(&known, &rest, at, true);
        fewest = fewest.min(rest.len());
        poorer += u64::from(rest.len() < known.len());
        let polled = run(&here, &["doctor"]);
        assert!(matches!(polled.status.code(), Some(0 | 1)), "byte {at}: {}", text(&polled));
        noticed += u64::from(!polled.status.success());
        let repaired = run(&here, &["doctor", "--repair"]);
        assert!(repaired.status.success(), "byte {at}: {}", text(&repaired));
        let again = run(&here, &["export", "again.ndjson"]);
        assert!(again.status.success(), "byte {at}: {}", text(&again));
        check(&known, &exported(&here.join("again.ndjson")), at, true);
        fs::remove_dir_all(&here).expect("removed");
    }
    println!(
        "{flips} flips: {noticed} noticed by the doctor; {complete} exports as before; {poorer} exports of what can \
         be read lack jobs, the poorest has {fewest} of {}",
        known.len()
    );
}

/// Asserts that each found job equals the job that was put. A job whose attempts are damaged may be
/// dead.
fn check(
    known: &HashMap<String, Value>,
    found: &HashMap<String, Value>,
    at: usize,
    may_lose_jobs: bool,
) {
    assert!(
        may_lose_jobs || found.len() == known.len(),
        "byte {at}: only {} jobs, without a report",
        found.len()
    );
    for (id, job) in found {
        let known = known.get(id).unwrap_or_else(|| panic!("byte {at}: {id} was never put"));
        for field in ["topic", "body", "created_at", "ttr_ms", "max_attempts", "backoff"] {
            assert_eq!(job[field], known[field], "byte {at}: {field} of {id}");
        }
        // The repair sets a new time of death, even for jobs that were dead before.
        let died = |job: &Value| job["died_at"].as_u64();
        let made_dead =
            job["state"] == "dead" && (known["state"] != "dead" || died(job) > died(known));
        if !made_dead {
            for field in ["state", "due_at", "attempt", "reservation", "reserved_until", "died_at"]
            {
                assert_eq!(job[field], known[field], "byte {at}: {field} of {id}");
            }
        }
    }
}

/// Creates a store with jobs in every state, some of them with bodies of many pages, and stops the
/// server.
async fn create_store_with_all_states(dir: &Path) {
    let mut server = Process::start(dir, &[]).await;
    for batch in 0..8 {
        let job = |n: u64| {
            let body = "x".repeat(if n.is_multiple_of(20) { 9_000 } else { 40 });
            let delay = if n.is_multiple_of(4) { 0 } else { 86_400 };
            json!({"topic": format!("topic-{}", n % 3), "id": format!("job:{n}"), "body": body,
                "delay": delay, "backoff": ["1h"]})
        };
        let jobs: Vec<Value> = (batch * 50..batch * 50 + 50).map(job).collect();
        server.post("/batch/jobs", json!({"jobs": jobs})).await.expect("an answer");
    }
    for (index, last) in ["finish", "bury", "release"].iter().enumerate() {
        for topic in 0..3 {
            let count = if index == 0 { 4 } else { 6 };
            let path = format!("/topics/topic-{topic}/pop?count={count}&ttr=24h");
            let (_, popped) = server.get(&path).await;
            for job in
                popped["jobs"].as_array().expect("jobs").iter().take(if index == 0 { 4 } else { 5 })
            {
                let path = format!("/jobs/{}/{last}", job["id"].as_str().expect("an id"));
                let held = json!({"reservation": job["reservation"]});
                let (status, said) = server.post(&path, held).await.expect("an answer");
                assert!(status < 300, "{said}");
            }
        }
    }
    server.post("/topics/topic-1/pause", Value::Null).await.expect("an answer");
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_store_keeps_its_schedules_and_names_damaged_ones() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut server = Process::start(place.path(), &[]).await;
    for name in ["daily", "hourly"] {
        let schedule = json!({"topic": "t", "cron": format!("@{name}"), "missed": "all"});
        assert_eq!(server.put(&format!("/schedules/{name}"), schedule).await, Some(201));
    }
    let daily = server.get("/schedules/daily").await.1;
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let file = rusqlite::Connection::open(place.path().join("data/jobs.db")).expect("opened");
    let damage =
        "UPDATE topics SET defaults = replace(defaults, 't', 'u') WHERE topic LIKE '%hourly'";
    assert_eq!(file.execute(damage, ()).expect("updated"), 1);
    drop(file);

    let said = text(&run(place.path(), &["doctor"]));
    for words in
        ["schedules   1", "to repair", "schedule hourly", "has changed since it was written"]
    {
        assert!(said.contains(words), "{said}");
    }
    let refused = run(place.path(), &["export", "a.ndjson"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("jobs or schedules on them; add --skip-damaged"));
    let skipping = run(place.path(), &["export", "a.ndjson", "--skip-damaged"]);
    assert!(text(&skipping).contains("and 1 schedules to a.ndjson"), "{}", text(&skipping));
    let repaired = run(place.path(), &["doctor", "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    assert!(text(&repaired).contains("which schedules are missing"), "{}", text(&repaired));
    let server = Process::start(place.path(), &[]).await;
    assert_eq!(server.get("/schedules/daily").await.1, daily);
    assert_eq!(server.get("/schedules/hourly").await.0, 404);
}
