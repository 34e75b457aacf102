//! Calls on whole topics: counts, pauses, purges, kicks, defaults.

use crate::api::prelude::*;

async fn put_many(server: &Server, topic: &str, delays: impl IntoIterator<Item = u64>) {
    server.put_all(delays.into_iter().map(|delay| json!({"topic": topic, "delay": delay}))).await;
}

pub async fn jobs_are_listed_and_counted_by_due_time(server: Server) {
    const BEGIN: u64 = 1_900_000_000_000;
    let at = |minutes: u64| BEGIN + minutes * 60_000;
    server.put_all((0..30).map(|n| json!({"topic": "t", "due_at": at(n)}))).await;

    let path = format!("/topics/t/jobs?state=delayed&limit=3&due_after={}", at(10));
    let range = format!("{path}&due_before={}", at(20));
    let listed = server.all_pages(&range).await;
    let first = listed.iter().filter_map(|job| job["due_at"].as_str()).min();
    assert_eq!((listed.len(), first), (10, Some("2030-03-17T17:56:40.000Z")));
    let cursor = server.get(&range).await.ok(200)["cursor"].clone();
    let other = format!("{path}&cursor={}", cursor.as_str().expect("a cursor"));
    server.get(&other).await.invalid("cursor");

    let path = format!("/topics/t/due?from={}&until={}&step=10m", at(5), at(35));
    let due = server.get(&path).await.ok(200);
    assert_eq!(
        due,
        json!({"from": "2030-03-17T17:51:40.000Z", "step": 600, "counts": [10, 10, 5]})
    );
    let soon = server.get("/topics/t/due").await.ok(200);
    assert_eq!(soon["counts"], json!(vec![0; 60]), "the counts of the next hour, minute by minute");
}

pub async fn the_overview_describes_all_topics(server: Server) {
    put_many(&server, "mail.a", [0, 0, 3600]).await;
    put_many(&server, "mail.b", [3600, 7200]).await;
    put_many(&server, "paused", [0, 0, 0]).await;
    server.post("/topics/paused/pause", "").await.ok(200);
    let popped = server.pop("mail.a/pop").await;
    let bury = format!("/jobs/{}/bury", id_of(&popped[0]));
    server.post(&bury, "").await.ok(200);
    server.pop("mail.a/pop").await;
    put_many(&server, "late", [0]).await;

    let seen = server.get("/overview").await.ok(200);
    assert_eq!(
        seen["jobs"],
        json!({"delayed": 3, "ready": 4, "reserved": 1, "dead": 1, "finished": 0})
    );
    assert_shows(&seen, json!({"topics": 4, "paused": 1}));
    assert_eq!(
        seen["due_not_delivered"], 1,
        "jobs of the paused topic count as not delivered: {seen}"
    );
    assert!(seen["oldest_ready_age"].as_f64().is_some_and(|age| age < 3600.0), "{seen}");
    let names = |list: &str| -> Vec<String> {
        let topics = seen[list].as_array().expect("a list").iter();
        topics.map(|topic| topic["topic"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("oldest_ready"), ["paused", "late"]);
    assert_eq!(seen["oldest_ready"][0]["paused"], true);
    assert_eq!(names("most_delayed"), ["mail.b", "mail.a"]);
    assert_eq!(names("most_dead"), ["mail.a"]);
    let late: u64 = seen["lateness"]
        .as_array()
        .expect("minutes")
        .iter()
        .map(|minute| {
            assert!(minute["p50"].as_f64() <= minute["p99"].as_f64(), "{minute}");
            minute["popped"].as_u64().expect("a number")
        })
        .sum();
    assert_eq!(late, 2, "{seen}");
    assert_shows(&seen["since_start"], json!({"put": 9, "dead": 1}));
    assert_eq!(seen["store"], json!({"status": "ok", "reasons": []}));
    assert!(seen["servers"].is_number() && seen["version"].is_string(), "{seen}");

    // Later changes are shown after some time.
    server.delete("/topics/paused/jobs").await.ok(200);
    while server.get("/overview").await.ok(200)["jobs"]["ready"] != 1 {
        pass(Duration::from_millis(100)).await;
    }
}

pub async fn topics_are_listed_with_exact_counts(server: Server) {
    assert_eq!(server.get("/topics").await.ok(200), json!({"topics": [], "cursor": null}));
    put_many(&server, "mail.a", [0, 0, 0, 3600, 7200]).await;
    put_many(&server, "mail.b", [3600]).await;
    put_many(&server, "orders", [0]).await;
    let popped = server.pop("mail.a/pop").await;
    let bury = format!("/jobs/{}/bury", id_of(&popped[0]));
    server.post(&bury, "").await.ok(200);
    server.pop("mail.a/pop").await;

    let look = server.topic("mail.a").await;
    for (field, count) in [("delayed", 2), ("ready", 1), ("reserved", 1), ("dead", 1)] {
        assert_eq!(look[field], count, "{look}");
    }
    assert_shows(&look, json!({"topic": "mail.a", "paused": false}));
    assert!(look["next_due_at"].is_string() && look["oldest_ready_age"].is_number(), "{look}");
    let since = &look["since_start"];
    assert_shows(since, json!({"put": 5, "popped": 2}));
    assert_shows(since, json!({"finished": 0, "timed_out": 0, "dead": 1}));
    assert_shows(&server.topic("nobody").await, json!({"ready": 0, "next_due_at": null}));

    let all = server.all_pages("/topics?limit=1").await;
    assert_eq!(names(&all), ["mail.a", "mail.b", "orders"]);
    let mail = server.get("/topics?prefix=mail.").await.ok(200);
    assert_eq!(mail["topics"].as_array().expect("topics").len(), 2);
    assert_eq!(mail["topics"][0]["delayed"], 2);

    server.delete("/topics/orders/jobs").await.ok(200);
    assert!(!server.get("/topics").await.text.contains("orders"), "an empty topic is listed");
}

pub async fn jobs_are_paged_through_by_state(server: Server) {
    put_many(&server, "t", (0..50).map(|n| 3600 + n / 10)).await;
    let jobs = server.all_pages("/topics/t/jobs?state=delayed&limit=7").await;
    assert!(jobs.iter().all(|job| job["state"] == "delayed"), "{jobs:?}");
    let ids: HashSet<&str> = jobs.iter().map(id_of).collect();
    assert_eq!((jobs.len(), ids.len()), (50, 50));
    let page = server.get("/topics/t/jobs?state=delayed&limit=7").await.ok(200);
    let cursor = page["cursor"].as_str().expect("the list has another page");
    for (topic, state, cursor) in [
        ("t", "dead", cursor.to_owned()),
        ("other", "delayed", cursor.to_owned()),
        ("t", "delayed", format!("{cursor}0")),
        ("t", "delayed", cursor.replacen('-', "-1", 1)),
        ("t", "delayed", "nonsense".to_owned()),
        ("t", "delayed", String::new()),
    ] {
        let path = format!("/topics/{topic}/jobs?state={state}&cursor={cursor}");
        server.get(&path).await.invalid("cursor");
    }
}

pub async fn a_topic_with_settings_is_listed_without_jobs(server: Server) {
    let names = async |query: &str| names(&server.all_pages(&format!("/topics?{query}")).await);
    for topic in ["a.1", "a.3", "c"] {
        server.post(&format!("/topics/{topic}/pause"), "").await.ok(200);
    }
    for topic in ["a.3", "b", "c"] {
        server.set_topic(topic, r#"{"ttr":90}"#).await.ok(200);
    }
    put_many(&server, "a.2", [0, 3600]).await;
    put_many(&server, "c", [0]).await;
    for limit in ["limit=100", "limit=2"] {
        assert_eq!(names(limit).await, ["a.1", "a.2", "a.3", "b", "c"], "{limit}");
    }
    assert_eq!(names("prefix=a.").await, ["a.1", "a.2", "a.3"]);
    let page = &server.get("/topics?limit=3&prefix=a.").await.ok(200)["topics"];
    assert_shows(&page[0], json!({"paused": true, "ready": 0, "delayed": 0}));
    assert_shows(&page[1], json!({"paused": false, "ready": 1, "delayed": 1}));
    server.post("/topics/a.1/resume", "").await.ok(200);
    server.set_topic("b", "{}").await.ok(200);
    assert_eq!(names("").await, ["a.2", "a.3", "c"]);
}

fn names(topics: &[Value]) -> Vec<String> {
    topics.iter().map(|topic| topic["topic"].as_str().expect("a name").to_owned()).collect()
}

pub async fn a_page_of_jobs_may_have_a_thousand(server: Server) {
    put_many(&server, "t", [3600; 1000]).await;
    let page = server.get("/topics/t/jobs?state=delayed&limit=1000").await.ok(200);
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(1000));
}

pub async fn a_paused_topic_accepts_jobs_and_delivers_none(server: Server) {
    server.put(r#"{"topic":"t","id":"before"}"#).await;
    let paused = server.post("/topics/t/pause", "").await.ok(200);
    assert_eq!(paused, json!({"topic": "t", "paused": true, "paused_until": null}));
    server.put(r#"{"topic":"t","id":"after","delay":"50ms"}"#).await;
    assert!(server.pop("t/pop?wait=300ms").await.is_empty());
    assert_eq!(server.topic("t").await["paused"], true);
    assert_eq!(server.get("/topics").await.ok(200)["topics"][0]["paused"], true);
    server.put(r#"{"topic":"u","id":"other"}"#).await;
    assert_eq!(server.pop("t,u/pop").await[0]["id"], "other");

    let server = Arc::new(server);
    let waiting = server.begin_pop("t/pop?wait=20s&count=2");
    server.until_pops_wait(1).await;
    let resumed = Stopwatch::start();
    server.post("/topics/t/resume", "").await.ok(200);
    assert!(!waiting.await.expect("joined").is_empty());
    assert!(resumed.elapsed() < scaled(Duration::from_secs(8)), "{:?}", resumed.elapsed());
}

pub async fn a_pause_for_a_time_ends_by_itself(server: Server) {
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let began = Instant::now();
    let paused = server.post("/topics/t/pause", r#"{"for":"1500ms"}"#).await.ok(200);
    let shown = server.topic("t").await;
    assert!(paused["paused_until"].is_string(), "{paused}");
    assert_shows(&shown, json!({"paused": true, "paused_until": paused["paused_until"]}));
    assert_eq!(
        server.pop("t/pop?wait=20s").await[0]["id"],
        "a",
        "the waiting consumer did not get the job after the pause"
    );
    let passed = began.elapsed();
    assert!(passed >= Duration::from_millis(1500), "{passed:?}");
    assert_shows(&server.topic("t").await, json!({"paused": false, "paused_until": null}));

    // The latest pause replaces the earlier one.
    server.post("/topics/t/pause", r#"{"for":"1h"}"#).await.ok(200);
    assert_eq!(server.post("/topics/t/pause", "").await.ok(200)["paused_until"], Value::Null);
    assert_eq!(server.get("/topics").await.ok(200)["topics"][0]["paused_until"], Value::Null);
    server.post("/topics/t/pause", r#"{"for":"1h"}"#).await.ok(200);
    let resumed = server.post("/topics/t/resume", "").await.ok(200);
    assert_eq!(resumed, json!({"topic": "t", "paused": false, "paused_until": null}));
}

pub async fn the_last_errors_are_reported_with_their_jobs(server: Server) {
    let last = async || server.get("/overview").await.ok(200)["last_errors"].clone();
    assert_eq!(last().await, json!([]));
    for id in ["a", "b", "c"] {
        let put = json!({"topic": "t", "id": id, "max_attempts": 1 + u8::from(id == "b")});
        server.put(put).await;
    }
    server.pop("t/pop?count=3").await;
    server.post("/jobs/a/release", r#"{"error":"refused"}"#).await.ok(200);
    server.post("/jobs/b/release", r#"{"error":"refused","delay":"1h"}"#).await.ok(200);
    server.post("/jobs/c/bury", r#"{"error":"hopeless"}"#).await.ok(200);
    server.post("/jobs/nope/bury", r#"{"error":"of no job"}"#).await.problem(404, "job_not_found");
    let seen: Vec<Value> = last()
        .await
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| json!([one["error"], one["topic"], one["id"], one["state"], one["times"]]))
        .collect();
    assert_eq!(
        seen,
        [json!(["hopeless", "t", "c", "dead", 1]), json!(["refused", "t", "b", "delayed", 2])]
    );
}

pub async fn a_purge_removes_jobs_that_change_their_state_meanwhile(server: Server) {
    const JOBS: usize = 3000;
    for _ in 0..JOBS / 1000 {
        put_many(&server, "t", (0..1000).map(|_| 0)).await;
    }
    let mut held = Vec::new();
    while held.len() < JOBS {
        held.extend(server.pop("t/pop?count=100").await);
    }
    // Consumers release their jobs during the purge, the last ones first.
    let release = async {
        for part in held.rchunks(50) {
            let jobs: Vec<Value> = part.iter().map(|job| json!({"id": job["id"]})).collect();
            server.post("/batch/release", json!({"jobs": jobs})).await.ok(200);
        }
    };
    let purge = server.delete("/topics/t/jobs");
    let (purged, ()) = futures::future::join(purge, release).await;
    let look = server.topic("t").await;
    let left = ["delayed", "ready", "reserved", "dead"].map(|state| look[state].as_u64());
    assert_eq!(left, [Some(0); 4], "{}", purged.text);
    assert_eq!(purged.ok(200)["purged"], JOBS);
}

pub async fn a_topic_has_defaults_for_omitted_fields(server: Server) {
    let defaults = r#"{"ttr":"90s","max_attempts":3,"backoff":["1s","2m"],"dead_retention":"1d",
        "finished_retention":"1h","priority":0,"expires_after":"2h","dead_to":"failed"}"#;
    let set = server.set_topic("t", defaults).await.ok(200)["defaults"].clone();
    let expected = json!({
        "ttr": 90, "max_attempts": 3, "backoff": [1, 120], "dead_retention": 86400,
        "finished_retention": 3600, "priority": 0, "expires_after": 7200, "dead_to": "failed",
    });
    assert_eq!(set, expected);
    assert_eq!(server.set_topic("t", server.topic("t").await).await.ok(200)["defaults"], expected);
    let of_topic = json!({
        "ttr": 90, "max_attempts": 3, "backoff": [1, 120], "priority": 0, "expires_after": 7200,
    });
    let own = json!({
        "ttr": 5, "max_attempts": 7, "backoff": [9], "priority": 6, "expires_after": 86400,
    });
    let null = json!({
        "ttr": null, "max_attempts": null, "backoff": null, "priority": null,
        "expires_after": null,
    });
    for (id, given, expected) in
        [("none", &json!({}), &of_topic), ("null", &null, &of_topic), ("own", &own, &own)]
    {
        let job = with(&json!({"topic": "t", "id": id}), given.clone());
        server.put(&job).await;
        let batch = format!("{id}-of-batch");
        server.put_all([with(&job, json!({"id": batch}))]).await;
        for id in [id, &batch] {
            assert_shows(&server.job(id).await, expected.clone());
        }
    }
    for topic in ["other", "t"] {
        server.put(json!({"topic": topic, "id": topic})).await;
        let standard = json!({"ttr": 60, "max_attempts": 20, "priority": 4});
        assert_shows(&server.job(topic).await, with(&null, standard));
        // The second job is put when the topic has no defaults any more.
        assert_eq!(server.set_topic("t", &null).await.ok(200)["defaults"]["ttr"], Value::Null);
    }
    assert_shows(&server.job("none").await, of_topic);
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_settings_reach_all_servers_and_outlive_them() {
    let one = Server::on_redis().await;
    let other = one.beside().await;
    one.put(r#"{"topic":"t","id":"a"}"#).await;
    one.post("/topics/t/pause", "").await.ok(200);
    one.set_topic("t", r#"{"ttr":"90s"}"#).await.ok(200);
    // Every server gets the change within a second, or later on a busy machine.
    eventually!(
        other.topic("t").await["paused"] == true,
        "the other server does not get the change"
    );
    eventually!(
        other.topic("t").await["defaults"]["ttr"] == 90,
        "the other server does not get the change"
    );
    assert!(other.pop("t/pop?wait=100ms").await.is_empty());
    other.put(r#"{"topic":"t","id":"b"}"#).await;
    assert_eq!(one.job("b").await["ttr"], 90);
    let store = one.store.clone();
    one.stop().await;
    other.stop().await;
    let third = Server::on_store(&store).await;
    assert!(third.pop("t/pop?wait=100ms").await.is_empty());
    third.post("/topics/t/resume", "").await.ok(200);
    assert_eq!(third.pop("t/pop?count=2&wait=1s").await.len(), 2);
}
