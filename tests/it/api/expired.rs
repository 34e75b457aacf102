//! Expired jobs. A job without a consumer becomes dead when it expires, and no pop returns it.

use crate::api::prelude::*;
use crate::api::{
    expiry::{span, until_dead},
    priority::ids_in_one_bucket,
};

pub async fn a_job_expires_while_no_consumer_holds_it(server: Server) {
    server.post("/topics/paused/pause", "").await.ok(200);
    // The job of `held` must be popped before it expires.
    for (topic, id, after) in [("held", "c", 3.0), ("t", "a", 0.5), ("paused", "b", 0.5)] {
        let put =
            json!({"topic": topic, "id": id, "expires_after": after, "delay": 0.1, "ttr": 60});
        server.put(put).await;
    }
    let popped = server.pop_one("held").await;
    let waiting = server.get("/jobs/b?wait=30s").await.ok(200);
    assert_shows(&waiting, json!({"state": "dead", "error": "expired"}));
    for id in ["a", "b"] {
        let dead = until_dead(&server, id).await;
        assert_shows(&dead, json!({"died_at": dead["expires_at"], "attempt": 0, "history": []}));
        assert_eq!(span(&dead), Duration::from_millis(500), "the due time has changed");
        for action in ["finish", "release", "touch", "bury"] {
            server.act(id, action, "{}").await.problem(409, "never_popped");
        }
        assert_eq!(server.job(id).await, dead);
    }
    assert_eq!(server.topic("t").await["dead"], 1);
    let listed = server.get("/topics/t/jobs?state=dead").await.ok(200);
    assert_eq!(listed["jobs"][0]["error"], "expired");
    assert!(server.pop("t,paused/pop").await.is_empty());
    // A reserved job may outlast its expiry. It dies when its reservation ends.
    let by = held(&popped);
    let touched = async || time(&server.act("c", "touch", &by).await.ok(200), "reserved_until");
    let end = time(&popped, "expires_at") + Duration::from_secs(60);
    eventually!(
        touched().await > end,
        "the touch did not extend the reservation beyond the expiry"
    );
    assert_eq!(server.job("c").await["state"], "reserved");
    server.act("c", "finish", &by).await.is_done();
    // After a kick, the job has its whole time until the expiry again.
    server.act("a", "kick", "{}").await.ok(200);
    assert_eq!(server.post("/topics/paused/kick", "").await.ok(200)["kicked"], 1);
    for id in ["a", "b"] {
        assert!(span(&server.job(id).await) == Duration::from_millis(500));
        until_dead(&server, id).await;
    }
}

pub async fn a_job_whose_next_attempt_would_be_too_late_dies_at_once(server: Server) {
    let ids = ["release", "backoff", "uncounted", "ttr", "again"];
    for id in ids {
        let put = json!({
            "topic": id, "id": id, "expires_after": "1h", "max_attempts": 0,
            "ttr": if id == "ttr" { 1 } else { 60 },
            "backoff": if matches!(id, "backoff" | "ttr") { json!(["2h"]) } else { json!(null) },
        });
        server.put(put).await;
        server.pop_one(id).await;
    }
    for (id, request, state) in [
        ("release", json!({"delay": "1h", "error": "busy"}), "dead"),
        ("backoff", json!({"error": "busy"}), "dead"),
        ("uncounted", json!({"delay": "2h", "error": "busy", "count_attempt": false}), "dead"),
        ("again", json!({"delay": "59m", "error": "busy"}), "delayed"),
    ] {
        assert_eq!(server.act(id, "release", request).await.ok(200)["state"], state, "{id}");
        let job = server.job(id).await;
        let error = if state == "dead" { "expired" } else { "busy" };
        assert_shows(&job, json!({"state": state, "error": error}));
        assert_eq!(job["history"][0]["error"], "busy", "{job}");
        assert_eq!(job["history"][0]["outcome"], "released", "{job}");
        assert_eq!(job["died_at"].is_string(), state == "dead", "{job}");
        assert_eq!(job["attempt"], u8::from(id != "uncounted"), "{job}");
    }
    let dead = until_dead(&server, "ttr").await;
    assert_eq!(
        (&dead["history"][0]["outcome"], &dead["attempt"]),
        (&json!("timed_out"), &json!(1))
    );
    // The job died when its TTR ended, but its consumer may still finish it.
    assert!(time(&dead, "died_at") < time(&dead, "expires_at"));
    // The death is counted a moment later.
    let counted = async || server.topic("ttr").await["since_start"]["dead"] == 1;
    eventually!(counted().await, "the death is not counted");
    server.act("ttr", "finish", "{}").await.is_done();
    server.get("/jobs/ttr").await.problem(404, "job_not_found");
}

/// Pops until the topic is empty. Returns the ids. Each job must have been popped before its
/// expiry.
async fn pop_in_time(server: Arc<Server>, count: u64) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let jobs = server.pop(&format!("t/pop?wait=2s&count={count}")).await;
        if jobs.is_empty() {
            return ids;
        }
        for job in jobs {
            let ttr = Duration::from_secs(job["ttr"].as_u64().expect("whole seconds"));
            let popped_at = time(&job, "reserved_until") - ttr;
            let is_in_time =
                job.get("expires_at").is_none() || popped_at <= time(&job, "expires_at");
            assert!(is_in_time, "popped at {popped_at}: {job}");
            ids.push(id_of(&job).to_owned());
        }
    }
}

pub async fn no_pop_returns_an_expired_job(server: Server) {
    // All jobs are in one bucket, and more of them expire than a pop examines in one step. The jobs
    // that do not expire are the last ones.
    let ids = ids_in_one_bucket(600);
    let put = |n: usize| match n {
        0..590 => json!({"topic": "t", "id": ids[n], "priority": 9, "expires_after": 0.6}),
        _ => json!({"topic": "t", "id": ids[n], "priority": 0}),
    };
    server.post("/topics/t/pause", "").await.ok(200);
    let batch: Vec<Value> = (0..600).map(put).collect();
    server.post("/batch/jobs", json!({ "jobs": batch })).await.ok(200);
    let last = server.job(&ids[0]).await;
    server.post("/topics/t/resume", "").await.ok(200);
    let server = Arc::new(server);
    let consumers = [1, 7].map(|count| tokio::spawn(pop_in_time(Arc::clone(&server), count)));
    let mut popped = Vec::new();
    for consumer in consumers {
        popped.extend(consumer.await.expect("the consumer ends"));
    }
    let all: HashSet<&String> = popped.iter().collect();
    assert_eq!(all.len(), popped.len(), "a job was delivered twice");
    assert!(
        ids[590..].iter().all(|id| all.contains(id)),
        "a job that does not expire was not delivered"
    );
    eventually!(
        server.topic("t").await["dead"] == 600 - popped.len(),
        "the others are not dead: {last}"
    );
}

pub async fn a_pop_without_a_wait_finds_a_job_behind_expired_ones(server: Server) {
    // The first jobs expire soon, more of them than a pop and the timer end in the calls of one
    // pop. No pop comes back without a job.
    let begin = Instant::now();
    for part in ids_in_one_bucket(12_000).chunks(1_000) {
        let left = Duration::from_secs(5).saturating_sub(begin.elapsed()).as_millis().max(1);
        let put = |id| json!({"topic": "t", "id": id, "expires_after": format!("{left}ms")});
        let jobs: Vec<Value> = part.iter().map(put).collect();
        server.post("/batch/jobs", json!({ "jobs": jobs }).to_string()).await.ok(200);
    }
    server.put(r#"{"topic":"t","id":"last","priority":0}"#).await;
    loop {
        let jobs = server.pop("t/pop").await;
        assert!(!jobs.is_empty(), "a pop has not found the job that does not expire");
        if jobs[0]["id"] == "last" {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_job_expires_in_time_without_a_poll() {
    let rarely = |settings: &mut Settings| settings.timer.poll_interval = Millis::new(60_000);
    for server in Server::on_each_with(rarely).await {
        let soon = async |id: &str| {
            let begin = Stopwatch::start();
            until_dead(&server, id).await;
            assert!(begin.elapsed() < scaled(Duration::from_secs(20)), "{id} expired too late");
        };
        server.put(r#"{"topic":"t","id":"put","expires_after":0.3}"#).await;
        soon("put").await;
        server.act("put", "kick", "{}").await.ok(200);
        soon("put").await;
        assert_eq!(server.post("/topics/t/kick", "").await.ok(200)["kicked"], 1);
        soon("put").await;
        server.put(r#"{"topic":"t","id":"changed"}"#).await;
        server.patch("changed", json!({"expires_after": 0.3})).await.ok(200);
        soon("changed").await;
        server.put(r#"{"topic":"t","id":"released","expires_after":1}"#).await;
        server.pop_one("t").await;
        server.act("released", "release", json!({"delay": 0})).await.ok(200);
        soon("released").await;
        server.put(r#"{"topic":"t","id":"late","delay":0.3,"expires_after":0.3}"#).await;
        soon("late").await;
        server.put(r#"{"topic":"t","id":"early","delay":"1h","expires_after":0.3}"#).await;
        server.patch("early", json!({"delay": 0.1})).await.ok(200);
        soon("early").await;
    }
}
