//! Calls of consumers on their reserved jobs.

use delay_queue::{
    job::{Reservation, State},
    store::{Clock, Options, Store, file::FileStore, verb},
};

use crate::api::prelude::*;
use crate::store::restore::stored_at;

pub async fn a_job_is_ready_after_its_ttr_and_refuses_its_old_consumer(server: Server) {
    server.put(r#"{"topic":"t","id":"a","ttr":1}"#).await;
    let popped_at = Instant::now();
    let first = server.pop_one("t").await;
    let second = server.pop_one("t").await;
    let after = popped_at.elapsed();
    assert!(after >= Duration::from_secs(1), "the job was ready within its TTR: {after:?}");
    assert!(after < scaled(Duration::from_secs(20)), "the job was ready too late: {after:?}");
    assert_eq!((&first["attempt"], &second["attempt"]), (&1.into(), &2.into()));
    for action in ["finish", "release", "touch", "bury"] {
        server.act("a", action, held(&first)).await.problem(409, "reservation_lost");
    }
    server.post("/jobs/a/finish", held(&second)).await.is_done();
}

pub async fn reservations_of_one_pop_cannot_be_derived_from_each_other(server: Server) {
    server.put_all(["a", "b"].map(|id| json!({"topic": "t", "id": id}))).await;
    let mut jobs = server.pop("t/pop?count=2").await;
    jobs.sort_by_key(|job| job["id"].to_string());
    let [mine, other] = [&jobs[0], &jobs[1]].map(reservation_of);
    let (known, tag) = other.split_at(16);
    let last = if other.ends_with('0') { '1' } else { '0' };
    let guesses = [
        mine.clone(),
        known.to_owned(),
        format!("{known}{}", &mine[16..]),
        format!("{known}{}", "0".repeat(16)),
        format!("{known}{}{last}", &tag[..15]),
        // Builds the reservation that a version without tags would have given.
        format!("{}0{}", &known[..13], &known[14..]),
    ];
    let finish = async |id: &str, reservation: &str| {
        let jobs = json!({"jobs": [{"id": id, "reservation": reservation}]});
        server.post("/batch/finish", jobs).await.results().remove(0)
    };
    for guess in guesses.iter().filter(|guess| **guess != other) {
        for action in ["finish", "release", "touch", "bury"] {
            let by = json!({"reservation": guess});
            server.act("b", action, by).await.problem(409, "reservation_lost");
            let query = format!("/jobs/b/{action}?reservation={guess}");
            server.post(&query, "").await.problem(409, "reservation_lost");
        }
        assert_eq!(finish("b", guess).await["code"], "reservation_lost");
    }
    for (id, reservation) in [("b", other), ("a", mine)] {
        assert_eq!(finish(id, &reservation).await["status"], 204);
    }
}

/// Starts a server on the files in a folder.
async fn open(dir: &TempDir) -> Server {
    let url = Secret(format!("file:{}", dir.path().display()));
    Server::with(|settings| settings.store.url = url).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_of_an_older_version_needs_no_tag() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = Options { buckets: None, clock: Clock::Own, create: true };
    let store = FileStore::open(dir.path(), options).expect("opened");
    let mut job = stored_at(Clock::Own.now().floor, "old", "t", State::Reserved);
    job.reservation = job.reservation.map(Reservation::untagged);
    let bucket = store.buckets().of(&job.id);
    let restore: &dyn Store = &store;
    let restored = restore.call_in::<verb::Restore>(bucket, vec![job.clone()]).await;
    restored.expect("written").remove(0).expect("restored");
    store.close().await;
    drop(store);
    // The store has lost its key.
    let file = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("opened");
    let deleted = file.execute("DELETE FROM layout WHERE text LIKE 'reservations=%'", ());
    assert_eq!(deleted, Ok(1));
    drop(file);

    let server = open(&dir).await;
    server.put(r#"{"topic":"u","id":"new"}"#).await;
    let new = reservation_of(&server.pop_one("u").await);
    let old = job.reservation.expect("the job is reserved");
    let finish = format!("/jobs/old/finish?reservation={old}");
    server.post(&finish, "").await.is_done();
    let stripped = format!("/jobs/new/finish?reservation={}", &new[..16]);
    server.post(&stripped, "").await.problem(409, "reservation_lost");

    // The store keeps the key that was created at the first start.
    server.stop().await;
    let server = open(&dir).await;
    let finish = format!("/jobs/new/finish?reservation={new}");
    server.post(&finish, "").await.is_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_key_of_reservations_prevents_no_start() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    open(&dir).await.stop().await;
    let file = rusqlite::Connection::open(dir.path().join("jobs.db")).expect("opened");
    // The value is "reservations=" and a byte that is not UTF-8.
    let damage = "UPDATE layout SET text = CAST(x'7265736572766174696f6e733d80' AS TEXT)
                  WHERE text LIKE 'reservations=%'";
    assert_eq!(file.execute(damage, ()), Ok(1));
    drop(file);
    let server = open(&dir).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.act("a", "finish", server.hold("t").await).await.is_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_on_one_redis_accept_each_others_reservations() {
    let store = (Secret(shared::redis().url()), shared::prefix());
    // Both servers start at the same time, and one of them creates the key.
    let (one, other) = tokio::join!(Server::on_store(&store), Server::on_store(&store));
    one.put(r#"{"topic":"t","id":"a"}"#).await;
    one.put(r#"{"topic":"t","id":"b"}"#).await;
    for server in [&one, &other] {
        let job = server.pop_one("t").await;
        let third = one.beside().await;
        let stripped = json!({"reservation": reservation_of(&job)[..16]});
        third.act(id_of(&job), "finish", stripped).await.problem(409, "reservation_lost");
        third.act(id_of(&job), "finish", held(&job)).await.is_done();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_of_an_older_version_gets_its_key() {
    let redis = Redis::start();
    let server = Server::at(&redis).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.stop().await;
    assert!(redis.command("DEL {dq:layout}:reservations").expect("an answer").contains(":1"));
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    let server = Server::at(&redis).await;
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    let job = server.pop_one("t").await;
    Server::at(&redis).await.act("a", "finish", held(&job)).await.is_done();
}

pub async fn actions_by_id_alone_work_as_in_the_original_design(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    for action in ["finish", "release", "touch", "bury"] {
        server.act("a", action, "").await.problem(409, "never_popped");
    }
    let popped = server.pop_one("t").await;
    let touched = server.act("a", "touch", r#"{"ttr":"1h"}"#).await.ok(200);
    assert!(time(&touched, "reserved_until") > time(&popped, "reserved_until"));
    server.act("a", "release", "").await.ok(200);
    let idle = server.act("a", "release", "").await.problem(409, "reservation_lost");
    let detail = idle["detail"].as_str().expect("text");
    assert!(detail.contains("kick") && detail.contains("PATCH"), "{detail}");
    server.pop_one("t").await;
    server.act("a", "finish", "{}").await.is_done();
}

pub async fn a_reservation_may_stand_in_the_query(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let token = reservation_of(&server.pop_one("t").await);
    let twice = json!({"reservation": token});
    let path = format!("/jobs/a/finish?reservation={token}");
    server.post(&path, twice).await.problem(422, "invalid_field");
    server.post("/jobs/a/finish?reservation=1", "").await.problem(409, "reservation_lost");
    server.post(&path, "").await.is_done();
}

pub async fn a_job_is_buried_kicked_and_rescheduled(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.pop_one("t").await;
    server.post("/jobs/a/kick", "").await.problem(409, "job_reserved");
    let patch = async |body: &'static str| server.patch("a", body).await;
    patch(r#"{"delay":1}"#).await.problem(409, "job_reserved");
    assert_eq!(server.post("/jobs/a/bury", r#"{"error":"e"}"#).await.ok(200)["state"], "dead");
    patch(r#"{"delay":1}"#).await.problem(409, "job_dead");
    assert_eq!(server.post("/jobs/a/kick", "").await.ok(200)["state"], "ready");
    patch("{}").await.problem(422, "invalid_field");
    let both = r#"{"delay":1,"due_at":"2030-01-01T00:00:00Z"}"#;
    patch(both).await.invalid("due_at");
    assert_eq!(server.job("a").await["state"], "ready");
    let job = patch(r#"{"delay":"1h","body":[2]}"#).await.ok(200);
    assert_eq!((&job["state"], &job["body"][0]), (&"delayed".into(), &2.into()));
    assert!(patch(r#"{"delay":"50ms","body":null}"#).await.ok(200)["body"].is_null());
    assert_shows(&server.pop_one("t").await, json!({"attempt": 1, "body": null}));
}

#[tokio::test]
async fn an_operator_can_demand_reservations() {
    let server = Server::on_file_with(|settings| settings.queue.require_reservation = true).await;
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let job = server.pop_one("t").await;
    for action in ["finish", "release", "touch", "bury"] {
        server.act("a", action, "").await.problem(422, "reservation_required");
    }
    let batch = server.post("/batch/finish", r#"{"jobs":[{"id":"a"}]}"#).await.results();
    assert_eq!(batch[0]["code"], "reservation_required");
    server.act("a", "finish", held(&job)).await.is_done();
}
