//! A failing disk: every answer and `readyz` report it until a write succeeds again.

use reqwest::Method;

use crate::disk::prelude::*;
use crate::support::shifted_clock::seconds_until;

async fn put(server: &Process, id: &str) -> (u16, String) {
    let (status, answer) = post(server, "/jobs", json!({"topic": "t", "id": id})).await;
    (status, answer["applied"].as_str().unwrap_or_default().to_owned())
}

async fn popped_ids(server: &Process) -> Vec<String> {
    let held = pop(server, "t", 100).await;
    held.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
}

async fn assert_failure_is_reported(field: Field, applied: &str) {
    let (disk, mut server) = Disk::with_server().await;
    assert_eq!(put(&server, "before").await.0, 201);
    disk.set(field, EIO);
    assert_eq!(put(&server, "during").await, (503, applied.to_owned()));
    let (status, said) = readiness(&server).await;
    assert_eq!(status, 503, "{said}");
    for words in ["store_unavailable", "failed to reach the store: "] {
        assert!(said.contains(words), "{said}");
    }
    let refused = (503, "no".to_owned());
    for _ in 0..50 {
        assert_eq!(put(&server, "later").await, refused, "the put was not refused at once");
    }
    assert_eq!(disk.said("nothing can be written"), 1);
    // Without any request, the server retries by itself.
    disk.set(field, 0);
    until(|| readiness(&server), |(status, _)| *status == 200).await;
    assert_eq!(disk.said("writes succeed again"), 1);
    assert_eq!(put(&server, "after").await.0, 201);
    server.kill();
    let (_remains, server) = disk.server_after_a_power_cut().await;
    let found = popped_ids(&server).await;
    for (id, expected) in [("before", true), ("after", true), ("later", false)] {
        assert_eq!(found.iter().any(|found| found == id), expected, "is {id} among {found:?}?");
    }
    if applied == "no" {
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_to_the_disk_is_reported_and_retried() {
    assert_failure_is_reported(Field::WriteError, "no").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_leaves_its_puts_unknown() {
    assert_failure_is_reported(Field::SyncError, "unknown").await;
}

/// On a disk that adds no pages, releases with a large body fail while the other releases of the
/// same call are committed.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_denies_a_release_that_was_committed() {
    let (disk, server) = Disk::with_server().await;
    put_all(&server, "t", 10, 1).await;
    let mut releases = pop(&server, "t", 10).await;
    for (n, release) in releases.iter_mut().enumerate() {
        release["delay"] = json!("1h");
        if n.is_multiple_of(2) {
            release["body"] = json!("x".repeat(100_000));
        }
    }
    disk.limit(1);
    disk.set(Field::FullError, EIO);
    let (_, answer) = post(&server, "/batch/release", json!({"jobs": releases})).await;
    disk.set(Field::CapacityKib, 0);
    let mut committed = 0;
    for (n, release) in releases.iter().enumerate() {
        // If all jobs fail alike, the answer is one problem for all.
        let result = answer["results"].get(n).unwrap_or(&answer);
        let id = release["id"].as_str().expect("an id");
        let (_, job) = server.get(&format!("/jobs/{id}")).await;
        let is_released = job["state"] == "delayed";
        committed += usize::from(is_released);
        let denied = result["applied"] == "no";
        assert!(!(is_released && denied), "{id} is released, and the answer is {result}");
        let claimed = result["status"] == 200;
        assert!(is_released || !claimed, "{id} is {}, and the answer is {result}", job["state"]);
    }
    assert_eq!(committed, 5, "the releases without a body: {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_disk_is_reported_and_loses_no_job() {
    let (disk, server) = Disk::with_server().await;
    // These jobs exceed SQLite's cache, so that reads need the disk.
    let all = 240;
    put_all(&server, "t", all, 100_000).await;
    disk.set(Field::ReadError, EIO);
    for path in ["/topics/t/jobs?state=ready&limit=1000", "/topics/t/pop?count=60", "/jobs/t:0000"]
    {
        let (status, answer) = server.get(path).await;
        let told = (status, &answer["code"], &answer["applied"]);
        assert_eq!(told, (503, &json!("store_unavailable"), &json!("no")), "{path}: {answer}");
    }
    disk.set(Field::ReadError, 0);
    let mut found = popped_ids(&server).await;
    while found.len() < all {
        let more = popped_ids(&server).await;
        assert!(!more.is_empty(), "no more jobs after {found:?}");
        found.extend(more);
    }
    assert_eq!(found, (0..all).map(|n| id("t", n)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttr_keeps_its_length_if_the_clock_jumps_while_syncs_fail() {
    const DAY: i64 = 86_400;
    let (disk, clock) = (Disk::new(), ShiftedClock::new());
    let server = disk.server_on_clock(&clock).await;
    assert_eq!(put(&server, "held").await.0, 201);
    let held = pop(&server, "t", 1).await;
    // Several times, because another write of the server may meet the failing disk first: the put
    // is then refused before the server sees the new time.
    for (round, offset) in [DAY, 0, DAY, 0, DAY, 0, DAY, 0].into_iter().enumerate() {
        // The sync fails, so the server does not know whether the file contains the new end of the
        // reservation.
        disk.set(Field::SyncError, EIO);
        clock.set(offset);
        assert_eq!(put(&server, &format!("{round}")).await.0, 503);
        disk.set(Field::SyncError, 0);
        until(|| readiness(&server), |(status, _)| *status == 200).await;
        assert_eq!(put(&server, &format!("{round}:after")).await.0, 201);
        let left = seconds_until(&server.get("/jobs/held").await.1["reserved_until"]) - offset;
        assert!(
            (3_000..=3_600).contains(&left),
            "{left} s are left of the TTR of 1 h after the clock was set {} times",
            round + 1
        );
    }
    assert_all(204, &server, "/batch/finish", &held).await;
}

/// Sends a request with a token. The token may be empty while the server requires none.
async fn ask(
    server: &Process,
    (method, path): (Method, &str),
    token: &str,
    body: Value,
) -> (u16, Value) {
    let request = crate::support::http::client().request(method, format!("{}{path}", server.base));
    let request = if token.is_empty() { request } else { request.bearer_auth(token) };
    let answer = request.body(body.to_string()).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn create(server: &Process, creator: &str, name: &str, scopes: Value) -> String {
    let token = json!({"name": name, "scopes": scopes});
    let (status, made) = ask(server, (Method::POST, "/tokens"), creator, token).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().expect("a token").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_refused_after_a_doubtful_revocation() {
    let (disk, server) = Disk::with_server().await;
    let root = create(&server, "", "root", json!({"admin": ["*"]})).await;
    let shop = create(&server, &root, "shop", json!({"put": ["*"]})).await;
    let access = async || ask(&server, (Method::GET, "/access"), &shop, json!({})).await.0;
    assert_eq!(access().await, 200);
    loop {
        disk.set(Field::SyncError, EIO);
        let revoke = (Method::DELETE, "/tokens/shop");
        let (status, answer) = ask(&server, revoke, &root, json!({})).await;
        disk.set(Field::SyncError, 0);
        until(|| readiness(&server), |(status, _)| *status == 200).await;
        assert_eq!(status, 503, "{answer}");
        // Another write may meet the failing disk first; then the revocation is not tried.
        if answer["applied"] == "unknown" {
            break;
        }
        assert_eq!(answer["applied"], "no", "{answer}");
    }
    // The answer of /readyz may be older than the failed write.
    let tokens = async || ask(&server, (Method::GET, "/tokens"), &root, json!({})).await;
    let (_, left) = until(tokens, |(status, _)| *status == 200).await;
    assert_eq!(left["tokens"].as_array().map(Vec::len), Some(1), "not revoked: {left}");
    until(access, |status| *status == 401).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_stay_valid_while_their_last_use_waits_for_the_disk() {
    let (disk, server) = Disk::with_server().await;
    let root = create(&server, "", "root", json!({"admin": ["*"]})).await;
    let mut tokens = vec![root.clone()];
    for n in 0..40 {
        tokens.push(create(&server, &root, &format!("shop-{n}"), json!({"put": ["*"]})).await);
    }
    // A sync takes longer than a server trusts the tokens that it has read.
    disk.set(Field::SyncMillis, 7_000);
    let begun = Instant::now();
    for token in tokens.iter().cycle() {
        let (status, answer) = ask(&server, (Method::GET, "/access"), token, json!({})).await;
        assert_eq!(status, 200, "{answer}");
        if begun.elapsed() > Duration::from_secs(8) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // the test needs a steady stream of requests
    }
    disk.set(Field::SyncMillis, 0);
}
