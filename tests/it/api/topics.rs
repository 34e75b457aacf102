//! Calls on whole topics: counts, pauses, purges, kicks, defaults.

use crate::api::prelude::*;

async fn put_many(server: &Server, topic: &str, delays: impl Iterator<Item = u64>) {
    let jobs: Vec<Value> = delays.map(|delay| json!({"topic": topic, "delay": delay})).collect();
    server.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);
}

pub async fn jobs_are_listed_and_counted_by_due_time(server: Server) {
    const BEGIN: u64 = 1_900_000_000_000;
    let at = |minutes: u64| BEGIN + minutes * 60_000;
    let jobs: Vec<Value> = (0..30).map(|n| json!({"topic": "t", "due_at": at(n)})).collect();
    server.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);

    let mut listed = Vec::new();
    let mut cursor = String::new();
    let range = format!("due_after={}&due_before={}", at(10), at(20));
    loop {
        let path = format!("/topics/t/jobs?state=delayed&{range}&limit=3{cursor}");
        let page = server.get(&path).await.ok(200);
        for job in page["jobs"].as_array().expect("jobs") {
            listed.push(job["due_at"].as_str().expect("a time").to_owned());
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        let other = format!("/topics/t/jobs?state=delayed&due_after={}{cursor}", at(10));
        assert_eq!(server.get(&other).await.problem(422, "invalid_field")["field"], "cursor");
    }
    listed.sort();
    assert_eq!((listed.len(), listed[0].as_str()), (10, "2030-03-17T17:56:40.000Z"));
    for (path, field) in [
        ("state=dead&due_after=1900000000000", "due_after"),
        ("state=dead&due_before=1900000000000", "due_before"),
        ("state=ready&due_before=tomorrow", "due_before"),
    ] {
        let refused = server.get(&format!("/topics/t/jobs?{path}")).await;
        assert_eq!(refused.problem(422, "invalid_field")["field"], field);
    }

    let path = format!("/topics/t/due?from={}&until={}&step=10m", at(5), at(35));
    let due = server.get(&path).await.ok(200);
    assert_eq!(
        due,
        json!({"from": "2030-03-17T17:51:40.000Z", "step": 600, "counts": [10, 10, 5]})
    );
    let soon = server.get("/topics/t/due").await.ok(200);
    assert_eq!(soon["counts"], json!(vec![0; 60]), "the counts of the next hour, minute by minute");
    for (query, field) in [
        ("from=1900000000000&until=1900000000000", "until"),
        ("from=1900000000000&until=1900000501000&step=1", "step"),
        ("step=0", "step"),
        ("state=delayed", "state"),
    ] {
        let refused = server.get(&format!("/topics/t/due?{query}")).await;
        assert_eq!(refused.problem(422, "invalid_field")["field"], field);
    }
}

pub async fn the_overview_describes_all_topics(server: Server) {
    put_many(&server, "mail.a", [0, 0, 3600].into_iter()).await;
    put_many(&server, "mail.b", [3600, 7200].into_iter()).await;
    put_many(&server, "paused", [0, 0, 0].into_iter()).await;
    server.post("/topics/paused/pause", "").await.ok(200);
    let popped = server.pop("mail.a/pop").await;
    let bury = format!("/jobs/{}/bury", popped[0]["id"].as_str().expect("an id"));
    server.post(&bury, "").await.ok(200);
    server.pop("mail.a/pop").await;
    put_many(&server, "late", [0].into_iter()).await;

    let seen = server.get("/overview").await.ok(200);
    assert_eq!(
        seen["jobs"],
        json!({"delayed": 3, "ready": 4, "reserved": 1, "dead": 1, "finished": 0})
    );
    assert_eq!((&seen["topics"], &seen["paused"]), (&4.into(), &1.into()), "{seen}");
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
    assert_eq!((&seen["since_start"]["put"], &seen["since_start"]["dead"]), (&9.into(), &1.into()));
    assert_eq!(seen["store"], json!({"status": "ok", "reasons": []}));
    assert!(seen["servers"].is_number() && seen["version"].is_string(), "{seen}");
    assert_eq!(
        server.get("/overview?topic=a").await.problem(422, "invalid_field")["field"],
        "topic"
    );

    // Later changes are shown after some time.
    server.delete("/topics/paused/jobs").await.ok(200);
    while server.get("/overview").await.ok(200)["jobs"]["ready"] != 1 {
        pass(Duration::from_millis(100)).await;
    }
}

pub async fn topics_are_listed_with_exact_counts(server: Server) {
    assert_eq!(server.get("/topics").await.ok(200), json!({"topics": [], "cursor": null}));
    put_many(&server, "mail.a", [0, 0, 0, 3600, 7200].into_iter()).await;
    put_many(&server, "mail.b", [3600].into_iter()).await;
    put_many(&server, "orders", [0].into_iter()).await;
    let popped = server.pop("mail.a/pop").await;
    let bury = format!("/jobs/{}/bury", popped[0]["id"].as_str().expect("an id"));
    server.post(&bury, "").await.ok(200);
    server.pop("mail.a/pop").await;

    let look = server.get("/topics/mail.a").await.ok(200);
    for (field, count) in [("delayed", 2), ("ready", 1), ("reserved", 1), ("dead", 1)] {
        assert_eq!(look[field], count, "{look}");
    }
    assert_eq!((&look["topic"], &look["paused"]), (&"mail.a".into(), &false.into()));
    assert!(look["next_due_at"].is_string() && look["oldest_ready_age"].is_number(), "{look}");
    let since = &look["since_start"];
    assert_eq!((&since["put"], &since["popped"]), (&5.into(), &2.into()), "{since}");
    assert_eq!(
        (&since["finished"], &since["expired"], &since["dead"]),
        (&0.into(), &0.into(), &1.into())
    );
    let none = server.get("/topics/nobody").await.ok(200);
    assert_eq!((&none["ready"], &none["next_due_at"]), (&0.into(), &Value::Null));

    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/topics?limit=1{cursor}")).await.ok(200);
        for topic in page["topics"].as_array().expect("topics") {
            names.push(topic["topic"].as_str().expect("a name").to_owned());
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["mail.a", "mail.b", "orders"]);
    let mail = server.get("/topics?prefix=mail.").await.ok(200);
    assert_eq!(mail["topics"].as_array().expect("topics").len(), 2);
    assert_eq!(mail["topics"][0]["delayed"], 2);

    server.call(Method::DELETE, "/topics/orders/jobs", "").await.ok(200);
    assert!(!server.get("/topics").await.text.contains("orders"), "an empty topic is listed");
}

pub async fn jobs_are_paged_through_by_state(server: Server) {
    put_many(&server, "t", (0..50).map(|n| 3600 + n / 10)).await;
    let mut seen = HashSet::new();
    let mut cursor = String::new();
    loop {
        let page =
            server.get(&format!("/topics/t/jobs?state=delayed&limit=7{cursor}")).await.ok(200);
        for job in page["jobs"].as_array().expect("jobs") {
            assert_eq!(job["state"], "delayed");
            let id = job["id"].as_str().expect("an id").to_owned();
            assert!(seen.insert(id), "twice: {job}");
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 50);
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
        assert_eq!(server.get(&path).await.problem(422, "invalid_field")["field"], "cursor");
    }
}

pub async fn a_topic_with_settings_is_listed_without_jobs(server: Server) {
    let names = async |query: &str| {
        let page = server.get(&format!("/topics?{query}")).await.ok(200);
        let topics = page["topics"].as_array().expect("topics");
        let names = topics.iter().map(|topic| topic["topic"].as_str().expect("a name").to_owned());
        (names.collect::<Vec<_>>(), page["cursor"].as_str().map(ToOwned::to_owned))
    };
    for topic in ["a.1", "a.3", "c"] {
        server.post(&format!("/topics/{topic}/pause"), "").await.ok(200);
    }
    for topic in ["a.3", "b", "c"] {
        server.call(Method::PUT, &format!("/topics/{topic}"), r#"{"ttr":90}"#).await.ok(200);
    }
    put_many(&server, "a.2", [0, 3600].into_iter()).await;
    put_many(&server, "c", [0].into_iter()).await;
    assert_eq!(names("").await, (["a.1", "a.2", "a.3", "b", "c"].map(String::from).into(), None));
    assert_eq!(names("prefix=a.").await.0, ["a.1", "a.2", "a.3"]);
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let (some, next) = names(&format!("limit=2{cursor}")).await;
        all.extend(some);
        match next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(
        all,
        ["a.1", "a.2", "a.3", "b", "c"],
        "topics are missing, repeated, or in another order"
    );
    let page = server.get("/topics?limit=3&prefix=a.").await.ok(200);
    let shown = |index: usize| {
        let topic = &page["topics"][index];
        (topic["paused"].clone(), topic["ready"].clone(), topic["delayed"].clone())
    };
    assert_eq!(shown(0), (true.into(), 0.into(), 0.into()));
    assert_eq!(shown(1), (false.into(), 1.into(), 1.into()));
    server.post("/topics/a.1/resume", "").await.ok(200);
    server.call(Method::PUT, "/topics/b", "{}").await.ok(200);
    assert_eq!(names("").await.0, ["a.2", "a.3", "c"]);
}

pub async fn a_page_of_jobs_may_have_a_thousand(server: Server) {
    put_many(&server, "t", std::iter::repeat_n(3600, 1000)).await;
    let page = server.get("/topics/t/jobs?state=delayed&limit=1000").await.ok(200);
    assert_eq!(page["jobs"].as_array().expect("jobs").len(), 1000);
}

pub async fn bad_parameters_are_refused(server: Server) {
    for (method, path, field) in [
        (Method::GET, "/topics/t/jobs", "state"),
        (Method::GET, "/topics/t/jobs?state=lost", "state"),
        (Method::GET, "/topics/t/jobs?state=dead&limit=0", "limit"),
        (Method::GET, "/topics/t/jobs?state=dead&limit=1001", "limit"),
        (Method::GET, "/topics/t/jobs?state=dead&x=1", "x"),
        (Method::GET, "/topics/a,b/jobs?state=dead", "topic"),
        (Method::GET, "/topics?limit=0", "limit"),
        (Method::GET, "/topics?limit=1001", "limit"),
        (Method::GET, "/topics?prefix=a/b", "prefix"),
        (Method::GET, "/topics?cursor=a/b", "cursor"),
        (Method::GET, "/topics/a,b", "topic"),
        (Method::DELETE, "/topics/t/jobs?state=lost", "state"),
        (Method::DELETE, "/topics/t/jobs?limit=1", "limit"),
        (Method::POST, "/topics/t/kick?limit=0", "limit"),
        (Method::POST, "/topics/t/kick?limit=1000001", "limit"),
        (Method::POST, "/topics/t/pause?for=1h", "for"),
        (Method::POST, "/topics/..%2f/pause", "topic"),
    ] {
        let answer = server.call(method, path, "").await;
        assert_eq!(answer.problem(422, "invalid_field")["field"], field, "{path}");
    }
    for body in [
        r#"{"ttr":0}"#,
        r#"{"max_attempts":-1}"#,
        r#"{"backoff":[]}"#,
        r#"{"x":1}"#,
        r#"{"dead_retention":"11y"}"#,
    ] {
        server.call(Method::PUT, "/topics/t", body).await.problem(422, "invalid_field");
    }
    server.post("/topics/t/pause", r#"{"x":1}"#).await.problem(422, "invalid_field");
}

pub async fn a_paused_topic_accepts_jobs_and_delivers_none(server: Server) {
    server.put(r#"{"topic":"t","id":"before"}"#).await;
    let paused = server.post("/topics/t/pause", "").await.ok(200);
    assert_eq!(paused, json!({"topic": "t", "paused": true, "paused_until": null}));
    server.put(r#"{"topic":"t","id":"after","delay":"50ms"}"#).await;
    assert!(server.pop("t/pop?wait=300ms").await.is_empty());
    assert_eq!(server.get("/topics/t").await.ok(200)["paused"], true);
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
    for (text, field) in [
        (r#"{"for":0}"#, "for"),
        (r#"{"for":"5"}"#, "for"),
        (r#"{"for":"11y"}"#, "for"),
        (r#"{"until":"1h"}"#, "until"),
    ] {
        let refused = server.post("/topics/t/pause", text).await;
        assert_eq!(refused.problem(422, "invalid_field")["field"], field, "{text}");
    }
    assert_eq!(server.get("/topics/t").await.ok(200)["paused"], false);

    server.put(r#"{"topic":"t","id":"a"}"#).await;
    let began = Instant::now();
    let paused = server.post("/topics/t/pause", r#"{"for":"1500ms"}"#).await.ok(200);
    let shown = server.get("/topics/t").await.ok(200);
    assert!(paused["paused_until"].is_string(), "{paused}");
    assert_eq!((&shown["paused"], &shown["paused_until"]), (&true.into(), &paused["paused_until"]));
    assert_eq!(
        server.pop("t/pop?wait=20s").await[0]["id"],
        "a",
        "the waiting consumer did not get the job after the pause"
    );
    let passed = began.elapsed();
    assert!(passed >= Duration::from_millis(1500), "{passed:?}");
    let shown = server.get("/topics/t").await.ok(200);
    assert_eq!((&shown["paused"], &shown["paused_until"]), (&false.into(), &Value::Null));

    // The latest pause replaces the earlier one.
    server.post("/topics/t/pause", r#"{"for":"1h"}"#).await.ok(200);
    let paused = server.post("/topics/t/pause", "").await.ok(200);
    assert_eq!(paused["paused_until"], Value::Null);
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
        server.put(&put.to_string()).await;
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

pub async fn many_errors_of_one_topic_do_not_hide_those_of_others(server: Server) {
    let fail = async |topic: &str, error: String| {
        let put = server.put(&json!({"topic": topic}).to_string()).await;
        server.pop(&format!("{topic}/pop")).await;
        let path = format!("/jobs/{}/bury", put["id"].as_str().expect("an id"));
        server.post(&path, json!({"error": error}).to_string()).await.ok(200);
    };
    fail("quiet", "no such customer".to_owned()).await;
    for n in 0..30 {
        fail("flood", format!("{} is missing", "x".repeat(n + 1))).await;
        fail("refused", format!("10.0.0.{n}:80 refused request {n:08x} after {n} ms")).await;
    }
    let overview = server.get("/overview").await.ok(200);
    let last = overview["last_errors"].as_array().expect("a list");
    let times = |topic| -> Vec<u64> {
        let of_topic = last.iter().filter(|one| one["topic"] == topic);
        of_topic.map(|one| one["times"].as_u64().expect("a number")).collect()
    };
    assert_eq!(times("quiet"), [1]);
    assert_eq!(times("flood"), [1; 4]);
    assert_eq!(
        times("refused"),
        [30],
        "errors that differ only in numbers and addresses are not counted as one"
    );
}

pub async fn a_purge_removes_one_state_or_all(server: Server) {
    put_many(&server, "t", (0..500).map(|n| if n % 2 == 0 { 0 } else { 3600 })).await;
    put_many(&server, "other", [0].into_iter()).await;
    server.pop("t/pop?count=10").await;
    let purge = async |path: &str| {
        server.call(Method::DELETE, path, "").await.ok(200)["purged"].as_u64().expect("a number")
    };
    assert_eq!(purge("/topics/t/jobs?state=delayed").await, 250);
    let look = server.get("/topics/t").await.ok(200);
    assert_eq!(
        (&look["delayed"], &look["ready"], &look["reserved"]),
        (&0.into(), &240.into(), &10.into())
    );
    assert_eq!(purge("/topics/t/jobs").await, 250);
    assert_eq!(purge("/topics/t/jobs").await, 0);
    assert_eq!(server.get("/topics/other").await.ok(200)["ready"], 1);
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
            server.post("/batch/release", json!({"jobs": jobs}).to_string()).await.ok(200);
        }
    };
    let purge = server.delete("/topics/t/jobs");
    let (purged, ()) = futures::future::join(purge, release).await;
    let look = server.get("/topics/t").await.ok(200);
    let left = ["delayed", "ready", "reserved", "dead"].map(|state| look[state].as_u64());
    assert_eq!(left, [Some(0); 4], "{}", purged.text);
    assert_eq!(purged.ok(200)["purged"], JOBS);
}

pub async fn all_dead_jobs_of_a_topic_are_kicked_together(server: Server) {
    put_many(&server, "t", (0..30).map(|_| 0)).await;
    let mut popped = 0;
    while popped < 30 {
        for job in server.pop("t/pop?count=30").await {
            let bury = format!("/jobs/{}/bury", job["id"].as_str().expect("an id"));
            server.post(&bury, "").await.ok(200);
            popped += 1;
        }
    }
    assert_eq!(server.post("/topics/t/kick?limit=12", "").await.ok(200)["kicked"], 12);
    let look = server.get("/topics/t").await.ok(200);
    assert_eq!((&look["dead"], &look["ready"]), (&18.into(), &12.into()));
    assert_eq!(server.post("/topics/t/kick", "").await.ok(200)["kicked"], 18);
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}

pub async fn a_topic_has_defaults_for_omitted_fields(server: Server) {
    let defaults = r#"{"ttr":"90s","max_attempts":3,"backoff":["1s","2m"],"dead_retention":"1d",
        "finished_retention":"1h","priority":7,"expires_after":"2h","dead_to":"failed"}"#;
    let set = server.call(Method::PUT, "/topics/t", defaults).await.ok(200);
    let shown = json!({
        "ttr": 90, "max_attempts": 3, "backoff": [1, 120], "dead_retention": 86400,
        "finished_retention": 3600, "priority": 7, "expires_after": 7200, "dead_to": "failed",
    });
    assert_eq!(set["defaults"], shown);
    server.put(r#"{"topic":"t","id":"a"}"#).await;
    server.put(r#"{"topic":"t","id":"b","ttr":5,"max_attempts":7,"backoff":["9s"]}"#).await;
    server.put(r#"{"topic":"u","id":"c"}"#).await;
    let get = async |id: &str| server.get(&format!("/jobs/{id}")).await.ok(200);
    let (a, b, c) = (get("a").await, get("b").await, get("c").await);
    assert_eq!(
        (&a["ttr"], &a["max_attempts"], &a["backoff"]),
        (&90.into(), &3.into(), &json!([1, 120]))
    );
    assert_eq!((&b["ttr"], &b["max_attempts"], &b["backoff"]), (&5.into(), &7.into(), &json!([9])));
    assert_eq!(
        (&c["ttr"], &c["max_attempts"], &c["backoff"]),
        (&60.into(), &20.into(), &Value::Null)
    );
    let cleared = server.call(Method::PUT, "/topics/t", "{}").await.ok(200);
    assert!(cleared["defaults"]["ttr"].is_null());
    server.put(r#"{"topic":"t","id":"d"}"#).await;
    assert_eq!(get("d").await["ttr"], 60);
}

/// Eight delays give nine attempts. Then the job is dead, and a kick makes it ready again.
pub async fn a_payment_callback_backs_off_dies_and_is_kicked(server: Server) {
    let backoff = ["0s", "20ms", "30ms", "30ms", "40ms", "40ms", "50ms", "60ms"];
    let put = json!({"topic": "t", "id": "call", "backoff": backoff});
    server.put(&put.to_string()).await;
    let mut last_release: Option<Instant> = None;
    for (number, delay) in [0, 0, 20, 30, 30, 40, 40, 50, 60].into_iter().enumerate() {
        let job = server.pop_one("t").await;
        assert_eq!(job["attempt"], number + 1);
        assert_eq!(job["max_attempts"], 9);
        if let Some(at) = last_release {
            assert!(at.elapsed() >= Duration::from_millis(delay), "attempt {} early", number + 1);
        }
        last_release = Some(Instant::now());
        let release =
            format!(r#"{{"reservation":"{}","error":"no answer"}}"#, reservation_of(&job));
        let state = server.post("/jobs/call/release", release).await.ok(200)["state"].clone();
        assert_eq!(state == "dead", number == 8, "{state} after attempt {}", number + 1);
    }
    assert_eq!(
        server.get("/topics/t/jobs?state=dead").await.ok(200)["jobs"][0]["error"],
        "no answer"
    );
    assert_eq!(server.post("/jobs/call/kick", "").await.ok(200)["state"], "ready");
    assert_eq!(server.pop_one("t").await["attempt"], 1);
}

pub async fn many_deleted_jobs_do_not_hold_up_a_live_one(server: Server) {
    put_many(&server, "t", (0..1000).map(|_| 0)).await;
    for _ in 0..9 {
        put_many(&server, "t", (0..1000).map(|_| 0)).await;
    }
    server.put(r#"{"topic":"t","id":"live"}"#).await;
    let mut cursor = String::new();
    loop {
        let page =
            server.get(&format!("/topics/t/jobs?state=ready&limit=100{cursor}")).await.ok(200);
        let ids: Vec<Value> = page["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .filter(|job| job["id"] != "live")
            .map(|job| json!({"id": job["id"]}))
            .collect();
        if !ids.is_empty() {
            server.post("/batch/delete", json!({"jobs": ids}).to_string()).await.ok(200);
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let jobs = server.pop("t/pop?count=100").await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["id"], "live");
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_settings_reach_all_servers_and_outlive_them() {
    let one = Server::on_redis().await;
    let other = one.beside().await;
    one.put(r#"{"topic":"t","id":"a"}"#).await;
    one.post("/topics/t/pause", "").await.ok(200);
    one.call(Method::PUT, "/topics/t", r#"{"ttr":"90s"}"#).await.ok(200);
    // Every server gets the change within a second, or later on a busy machine.
    eventually!(
        other.get("/topics/t").await.ok(200)["paused"] == true,
        "the other server does not get the change"
    );
    eventually!(
        other.get("/topics/t").await.ok(200)["defaults"]["ttr"] == 90,
        "the other server does not get the change"
    );
    assert!(other.pop("t/pop?wait=100ms").await.is_empty());
    other.put(r#"{"topic":"t","id":"b"}"#).await;
    assert_eq!(one.get("/jobs/b").await.ok(200)["ttr"], 90);
    let store = one.store.clone();
    one.stop().await;
    other.stop().await;
    let third = Server::on_store(&store).await;
    assert!(third.pop("t/pop?wait=100ms").await.is_empty());
    third.post("/topics/t/resume", "").await.ok(200);
    assert_eq!(third.pop("t/pop?count=2&wait=1s").await.len(), 2);
}
