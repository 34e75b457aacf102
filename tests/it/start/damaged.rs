//! A data directory with damaged bytes. Wherever they are, the operator can repair the store, and
//! no job differs from the job that was put.

use std::{
    collections::HashMap,
    os::unix::fs::{MetadataExt, chown},
};

use crate::disk::sweep::copy;
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

const REPAIR: [&str; 2] = ["doctor", "--repair"];

type Jobs = HashMap<String, Value>;

/// Returns the jobs of an export by their ids.
fn exported(file: &Path) -> Jobs {
    let text = fs::read_to_string(file).expect("an export");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let jobs = lines.filter_map(|line| line.get("job").cloned());
    jobs.map(|job| (job["id"].as_str().expect("an id").to_owned(), job)).collect()
}

/// Changes the bytes of a file.
fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("the file");
    change(&mut bytes);
    fs::write(file, bytes).expect("written");
}

/// Flips a bit of the byte at this offset in every copy of `sought`, of which there may be several:
/// pages that were split contain old ones.
fn flip_copies(bytes: &mut [u8], sought: &[u8], offset: usize) {
    let ends = 0..bytes.len() - sought.len();
    let places: Vec<usize> = ends.filter(|&at| bytes[at..].starts_with(sought)).collect();
    assert!(!places.is_empty(), "the file does not contain {sought:?}");
    places.into_iter().for_each(|at| bytes[at + offset] ^= 1);
}

/// Finishes, buries or releases a popped job.
async fn end(server: &Process, job: &Value, how: &str) {
    let path = format!("/jobs/{}/{how}", job["id"].as_str().expect("an id"));
    server.post_ok(&path, json!({"reservation": job["reservation"]})).await;
}

/// Starts a server, puts 60 jobs one after another, finishes 20 of them, and kills the server.
async fn store_of_killed_server() -> WorkDir {
    let (place, mut server) = started("").await;
    for n in 0..60 {
        server.put_job(json!({"topic": "t", "id": format!("job:{n}"), "body": n})).await;
    }
    for _ in 0..20 {
        end(&server, &server.get("/topics/t/pop").await.1["jobs"][0], "finish").await;
    }
    server.kill();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_the_log_is_reported_and_loses_no_job() {
    let place = store_of_killed_server().await;
    let wal = place.path().join("data/jobs.db-wal");
    flip_the_middle(&wal);
    let log = fs::read(&wal).expect("the log");
    for arguments in [&["serve"][..], &["export", "a.ndjson"], &["doctor"]] {
        let words = ["jobs.db-wal", "damaged at byte", "acknowledged", "doctor --repair"];
        place.assert_fails(arguments, &words);
    }
    assert_eq!(fs::read(&wal).expect("the log"), log, "the refused start has changed the log");

    place.assert_succeeds(&REPAIR, &["data/damaged-"]);
    let popped = place.server("").await.get("/topics/t/pop?count=100").await.1;
    let popped = popped["jobs"].as_array().expect("jobs").iter();
    let ids: Vec<&str> = popped.map(|job| job["id"].as_str().expect("an id")).collect();
    let expected: Vec<String> = (20..60).map(|n| format!("job:{n}")).collect();
    // Sound versions of the page followed the damaged one, so no job may be lost or returned.
    assert_eq!(ids, expected);
}

#[test]
fn a_repaired_store_keeps_owner_and_mode() {
    let place = WorkDir::new();
    create_token(&place);
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
    change(&file, |bytes| bytes[..4096].fill(0xa5));
    place.assert_succeeds(&REPAIR, &["data/damaged-"]);
    assert_eq!(known(), before);
}

async fn status(server: &Process, token: Option<&str>) -> u16 {
    let request = crate::support::http::client().get(format!("{}/topics", server.base));
    let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    request.send().await.expect("an answer").status().as_u16()
}

/// Creates the only token of a store. Returns it.
fn create_token(place: &WorkDir) -> String {
    let create = ["token", "create", "--name", "the.only.one", "--scope", "admin"];
    let scopes = ["--scope", "put=*", "--scope", "read=*"];
    let made = place.run("", &[], &[&create[..], &scopes].concat());
    assert!(made.status.success(), "{made:?}");
    text(&made.stdout).trim().to_owned()
}

/// Returns the statuses of answers to requests without a token and with this one.
async fn statuses(server: &Process, token: &str) -> [u16; 2] {
    [status(server, None).await, status(server, Some(token)).await]
}

/// Root pages of the tables of jobs and of tokens.
const POOL_PAGE: u32 = 4;
const TOKENS_PAGE: u32 = 9;

/// Creates a store whose log contains its only token, followed by 60 jobs. Returns the token.
async fn logged_token() -> (WorkDir, String) {
    let place = store_of_killed_server().await;
    let token = create_token(&place);
    let mut server = place.server("").await;
    assert_eq!(status(&server, Some(&token)).await, 200);
    let log = place.path().join("data/jobs.db-wal");
    let is_recorded = || !versions_of(&written(&log), TOKENS_PAGE).is_empty();
    eventually!(is_recorded(), "the use of the token was not recorded");
    for n in 0..60 {
        let put = json!({"topic": "t", "id": format!("more:{n}")}).to_string();
        let request = crate::support::http::client().post(format!("{}/jobs", server.base));
        let answer = request.bearer_auth(&token).body(put).send().await.expect("an answer");
        assert_eq!(answer.status(), 201);
    }
    server.kill();
    (place, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_store_requires_tokens_as_before() {
    let (place, token) = logged_token().await;
    flip_in_page(&place.path().join("data/jobs.db-wal"), POOL_PAGE);
    place.assert_succeeds(&REPAIR, &[]);
    assert_eq!(statuses(&place.server("").await, &token).await, [401, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_repaired_without_its_tokens_refuses_all_callers() {
    let (place, token) = logged_token().await;
    flip_in_page(&place.path().join("data/jobs.db-wal"), TOKENS_PAGE);
    place.assert_succeeds(&REPAIR, &["revoke the token `lost-in-repair`"]);
    assert_eq!(statuses(&place.server("").await, &token).await, [401, 401]);
    let token = create_token(&place);
    place.assert_succeeds(&["token", "revoke", "lost-in-repair"], &[]);
    assert_eq!(statuses(&place.server("").await, &token).await, [401, 200]);
}

/// Flips a bit in every copy of the token's name in the file.
fn flip_names(bytes: &mut [u8]) {
    flip_copies(bytes, b"the.only.one", 0);
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
        let place = WorkDir::new();
        create_token(&place);
        change(&place.path().join("data/jobs.db"), |bytes| damage(bytes));
        place.assert_fails(&["serve"], &[cause]);
        let said = "all access tokens, or pages of them, are damaged";
        place.assert_succeeds(&REPAIR, &[said]);
        assert_eq!(status(&place.server("").await, None).await, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_and_metrics_show_a_row_of_an_unknown_job() {
    let place = store_with_all_states().await;
    let file = place.path().join("data/jobs.db");
    change(&file, |bytes| flip_copies(bytes, b"job:7topic-1", 4));
    let server = place.server("").await;
    let ready = server.get("/readyz").await.1;
    assert_eq!(ready, json!({"status": "degraded", "reasons": ["jobs_unreadable"]}));
    let metrics = server.text("/metrics").await;
    assert!(metrics.contains("\ndelay_queue_store_unreadable 1\n"), "{metrics}");
    let damaged = server.get("/jobs/job:7").await;
    assert_eq!(damaged.0, 404, "the job is found although its id is damaged");
    assert_eq!(server.get("/jobs/job:6").await.1["id"], "job:6");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_flipped_byte_can_be_repaired_and_changes_no_job() {
    let place = store_with_all_states().await;
    place.assert_succeeds(&["export", "whole.ndjson"], &[]);
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
        change(&here.join("data/jobs.db"), |bytes| bytes[at] ^= 1 << ((random >> 40) % 8));
        let run = |arguments: &[&str], may_fail: bool| {
            let output = output(&here, arguments);
            let code = output.status.code();
            let is_well = code == Some(0) || may_fail && code == Some(1);
            assert!(is_well, "byte {at}: {arguments:?}: {output:?}");
            code == Some(0)
        };
        let jobs = |file: &str| exported(&here.join(file));

        if run(&["export", "plain.ndjson"], true) {
            complete += 1;
            check(&known, &jobs("plain.ndjson"), at, false);
        }
        run(&["export", "rest.ndjson", "--skip-damaged"], false);
        let rest = jobs("rest.ndjson");
        check(&known, &rest, at, true);
        fewest = fewest.min(rest.len());
        poorer += u64::from(rest.len() < known.len());
        noticed += u64::from(!run(&["doctor"], true));
        run(&REPAIR, false);
        run(&["export", "again.ndjson"], false);
        check(&known, &jobs("again.ndjson"), at, true);
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
fn check(known: &Jobs, found: &Jobs, at: usize, may_lose_jobs: bool) {
    let count = found.len();
    let is_whole = may_lose_jobs || count == known.len();
    assert!(is_whole, "byte {at}: only {count} jobs, without a report");
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
            let fields = ["state", "due_at", "attempt", "reservation", "reserved_until", "died_at"];
            for field in fields {
                assert_eq!(job[field], known[field], "byte {at}: {field} of {id}");
            }
        }
    }
}

/// Creates a store with jobs in every state, some of them with bodies of many pages, and stops the
/// server.
async fn store_with_all_states() -> WorkDir {
    let (place, mut server) = started("").await;
    for batch in 0..8 {
        let job = |n: u64| {
            let body = "x".repeat(if n.is_multiple_of(20) { 9_000 } else { 40 });
            let delay = if n.is_multiple_of(4) { 0 } else { 86_400 };
            json!({"topic": format!("topic-{}", n % 3), "id": format!("job:{n}"), "body": body,
                "delay": delay, "backoff": ["1h"]})
        };
        let jobs: Vec<Value> = (batch * 50..batch * 50 + 50).map(job).collect();
        server.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    }
    for (last, popped, ended) in [("finish", 4, 4), ("bury", 6, 5), ("release", 6, 5)] {
        for topic in 0..3 {
            let path = format!("/topics/topic-{topic}/pop?count={popped}&ttr=24h");
            let jobs = server.get(&path).await.1;
            for job in jobs["jobs"].as_array().expect("jobs").iter().take(ended) {
                end(&server, job, last).await;
            }
        }
    }
    server.post_ok("/topics/topic-1/pause", json!({})).await;
    server.stop();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_store_keeps_its_schedules_and_names_damaged_ones() {
    let (place, mut server) = started("").await;
    for name in ["daily", "hourly"] {
        let schedule = json!({"topic": "t", "cron": format!("@{name}"), "missed": "all"});
        assert_eq!(server.put(&format!("/schedules/{name}"), schedule).await, Some(201));
    }
    let daily = server.get("/schedules/daily").await.1;
    server.stop();
    let file = rusqlite::Connection::open(place.path().join("data/jobs.db")).expect("opened");
    let damage =
        "UPDATE topics SET defaults = replace(defaults, 't', 'u') WHERE topic LIKE '%hourly'";
    assert_eq!(file.execute(damage, ()).expect("updated"), 1);
    drop(file);

    let words =
        ["schedules   1", "to repair", "schedule hourly", "has changed since it was written"];
    place.assert_fails(&["doctor"], &words);
    let export = ["export", "a.ndjson"];
    place.assert_fails(&export, &["jobs or schedules on them; add --skip-damaged"]);
    let skipping = [&export[..], &["--skip-damaged"]].concat();
    place.assert_succeeds(&skipping, &["and 1 schedules to a.ndjson"]);
    place.assert_succeeds(&REPAIR, &["which schedules are missing"]);
    let server = place.server("").await;
    assert_eq!(server.get("/schedules/daily").await.1, daily);
    assert_eq!(server.get("/schedules/hourly").await.0, 404);
}
