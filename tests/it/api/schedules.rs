//! Schedules: their routes, and the jobs that they put.

use crate::api::prelude::*;
use crate::support::shifted_clock::millis;

async fn act(server: &Server, name: &str, action: &str) -> Answer {
    server.post(&format!("/schedules/{name}/{action}"), "").await
}

/// Asserts that each call on a schedule is answered as if it did not exist.
pub async fn assert_not_found(server: &Server, token: &str, name: &str) {
    for route in ["GET ", "DELETE ", "POST /pause", "POST /resume", "POST /run"] {
        let (method, path) = route.split_once(' ').expect("a route");
        let path = format!("/schedules/{name}{path}");
        let method = method.parse().expect("a method");
        server.call_as(token, method, &path, "").await.problem(404, "schedule_not_found");
    }
}

async fn fired(server: &Server, topic: &str, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    while all.len() < count {
        let job = server.pop_one(topic).await;
        server.act(id_of(&job), "finish", "").await.is_done();
        all.push(job);
    }
    all
}

pub async fn a_schedule_is_set_shown_sent_back_and_deleted(server: Server) {
    assert_not_found(&server, "", "s").await;
    let least =
        server.set_schedule("s", json!({ "topic": "t", "cron": "0 9 * * MON" })).await.ok(201);
    let standard = json!({
        "name": "s", "topic": "t", "timezone": "UTC", "overlap": "put", "missed": "once",
        "body": null, "paused": false, "last": null,
    });
    assert_shows(&least, standard);
    assert_eq!(least["next"].as_array().expect("times").len(), 5);
    assert_eq!(server.set_schedule("s", &least).await.ok(200), least, "it cannot be sent back");
    let whole = json!({
        "topic": "u", "every": "90s", "anchor": "2030-01-01T00:00:00Z", "start": "2030-02-01T00:00:00Z",
        "end": "2030-02-01T00:05:00Z", "jitter": "10s", "overlap": "skip", "missed": "all",
        "body": { "a": [1, 2.50] }, "ttr": "5m", "max_attempts": 3, "backoff": ["1s", "1m"],
        "finished_retention": "1h", "priority": 9, "expires_after": "1d", "headers": { "X-A": "b" },
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    });
    let shown = server.set_schedule("s", whole).await.ok(200);
    assert_eq!(shown["next"][0], "2030-02-01T00:00:00.000Z");
    assert_eq!(shown["next"].as_array().expect("times").len(), 4, "it ends: {shown}");
    let expected = json!({
        "description": "every 90 seconds", "every": 90, "ttr": 300, "priority": 9,
        "overlap": "skip", "missed": "all", "backoff": [1, 60], "headers": { "X-A": "b" },
    });
    assert_shows(&shown, expected);
    let with_body = r#"{"topic":"u","every":"1d","body":{ "a": [1, 2.50] }}"#;
    server.set_schedule("exact", with_body).await.ok(201);
    let text = server.get("/v1/schedules/exact").await.text;
    assert!(text.contains(r#""body":{ "a": [1, 2.50] }"#), "{text}");
    assert_eq!(server.set_schedule("s", &shown).await.ok(200), shown, "it cannot be sent back");
    server.delete("/schedules/s").await.is_done();
    server.get("/schedules/s").await.problem(404, "schedule_not_found");
}

pub async fn each_instant_puts_one_job_at_its_time(server: Server) {
    let body = json!({
        "topic": "t", "every": "1s", "body": { "n": 1 }, "headers": { "a": "b" }, "ttr": 77,
        "finished_retention": "1h",
    });
    let set = server.set_schedule("tick.s", body).await.ok(201);
    let mut jobs = fired(&server, "t", 3).await;
    // Two that a late server puts together may come in any order.
    jobs.sort_by_key(|job| millis(&job["scheduled_at"]));
    let first = millis(&set["next"][0]);
    for (job, instant) in jobs.iter().zip((first..).step_by(1_000)) {
        assert_eq!(job["id"], format!("tick.s:{instant}"));
        assert_eq!(millis(&job["scheduled_at"]), instant);
        assert!(millis(&job["created_at"]) >= instant, "it was put before its instant: {job}");
        assert_shows(job, json!({"body": { "n": 1 }, "ttr": 77, "headers": { "a": "b" }}));
    }
    let kept = server.job(&format!("tick.s:{first}")).await;
    assert_eq!((&kept["state"], millis(&kept["scheduled_at"])), (&json!("finished"), first));
    let shown = server.get("/schedules/tick.s").await.ok(200);
    let last = id_of(&shown["last"]);
    let instant: i64 = last.strip_prefix("tick.s:").expect("its id").parse().expect("a number");
    assert!(instant >= first + 2_000, "{shown}");
    assert_eq!(millis(&shown["next"][0]), instant + 1_000);
}

pub async fn a_bad_timing_is_refused_by_its_field(server: Server) {
    let at = "2030-01-01T00:00:00Z";
    for (fields, field) in [
        (json!({}), "cron"),
        (json!({ "cron": null, "every": null }), "cron"),
        (json!({ "cron": "* * * * *", "every": "1m" }), "every"),
        (json!({ "every": 0 }), "every"),
        (json!({ "cron": "0 0 31 2 *" }), "cron"),
        (json!({ "cron": "* * * * *", "timezone": "Mars/Olympus" }), "timezone"),
        (json!({ "every": "1m", "start": at, "end": at }), "end"),
    ] {
        server.post("/schedules/preview", &fields).await.invalid(field);
        server.set_schedule("s", with(&fields, json!({ "topic": "t" }))).await.invalid(field);
    }
    let minutely = json!({ "topic": "t", "every": "1m" });
    for (name, fields, field) in [
        ("s", json!({ "topic": null }), "topic"),
        ("s", json!({ "id": "a" }), "id"),
        ("s", json!({ "delay": 1 }), "delay"),
        ("s", json!({ "overlap": "queue" }), "overlap"),
        ("s", json!({ "name": "other" }), "name"),
        ("s", json!({ "ttr": "2d" }), "ttr"),
        (&"n".repeat(108), json!({}), "name"),
        ("a:b", json!({}), "name"),
    ] {
        server.set_schedule(name, with(&minutely, fields)).await.invalid(field);
    }
    let name = "n".repeat(107);
    server.set_schedule(&name, json!({ "topic": "t", "every": "1s" })).await.ok(201);
    assert_eq!(id_of(&fired(&server, "t", 1).await[0]).len(), 121);
    act(&server, "preview", "pause").await.problem(422, "invalid_field");
    server.set_schedule("preview", "{}").await.problem(405, "method_not_allowed");
}

pub async fn a_preview_shows_the_next_instants_and_words(server: Server) {
    let timing = json!({ "cron": "CRON_TZ=Europe/Berlin 30 6 * * mon-fri" });
    let preview = server.post("/schedules/preview", timing).await.ok(200);
    let next = preview["next"].as_array().expect("times");
    assert_eq!(next.len(), 5);
    assert!(next.windows(2).all(|pair| millis(&pair[0]) < millis(&pair[1])), "{preview}");
    assert!(preview["description"].as_str().expect("words").contains("Berlin"), "{preview}");
    let daily = server.post("/schedules/preview", json!({ "cron": "@daily" })).await;
    let next = daily.ok(200)["next"].take();
    assert!(next[0].as_str().expect("a time").ends_with("T00:00:00.000Z"), "{next}");
    assert_eq!(server.get("/schedules").await.ok(200)["schedules"], json!([]));
}

pub async fn a_paused_schedule_puts_nothing_unless_it_is_run(server: Server) {
    server.set_schedule("s", json!({ "topic": "t", "every": "1s" })).await.ok(201);
    fired(&server, "t", 1).await;
    let paused = act(&server, "s", "pause").await.ok(200);
    assert_eq!((&paused["paused"], &paused["next"][4].is_string()), (&json!(true), &true));
    // Another PUT does not resume it.
    let again = server.set_schedule("s", json!({ "topic": "t", "every": "1s" })).await.ok(200);
    assert_eq!(again["paused"], true);
    // A pass that had begun before the pause may put one more job.
    let late = server.pop("t/pop?wait=2500ms&count=10").await;
    assert!(late.len() <= 1, "{late:?}");
    let run = act(&server, "s", "run").await;
    let job = run.ok(201);
    assert_shows(&job, json!({"topic": "t", "state": "ready"}));
    let id = id_of(&job);
    assert_eq!(run.headers["location"], format!("/jobs/{id}"));
    let popped = fired(&server, "t", 1).await.remove(0);
    assert_eq!(popped["id"], id);
    assert_eq!(format!("s:{}", millis(&popped["scheduled_at"])), id);
    let shown = server.get("/schedules/s").await.ok(200);
    // A cluster keeps finished jobs of schedules for a while.
    let state = &shown["last"]["state"];
    assert!(shown["last"]["id"] == id && (state.is_null() || state == "finished"), "{shown}");
    let resumed = act(&server, "s", "resume").await.ok(200);
    assert_eq!(resumed["paused"], false);
    let next = fired(&server, "t", 1).await.remove(0);
    assert_eq!(next["scheduled_at"], resumed["next"][0], "skipped instants are not made up for");
    assert_eq!(act(&server, "s", "resume").await.ok(200)["paused"], false);
}

pub async fn another_put_keeps_the_next_instant_of_the_same_timing(server: Server) {
    let body = json!({ "topic": "t", "every": "1h", "anchor": "2020-01-01T00:07:00Z" });
    let set = server.set_schedule("s", &body).await.ok(201);
    let mut other = body.clone();
    other["body"] = json!("changed");
    assert_eq!(server.set_schedule("s", &other).await.ok(200)["next"], set["next"]);
    other["anchor"] = json!("2020-01-01T00:08:00Z");
    let changed = server.set_schedule("s", &other).await.ok(200);
    assert_ne!(changed["next"], set["next"]);
    let cron = json!({ "topic": "t", "cron": "0 0 1 1 *" });
    let set = server.set_schedule("c", cron).await.ok(201);
    let named = json!({ "topic": "t", "cron": "0 0 1 1 *", "timezone": "UTC" });
    assert_eq!(server.set_schedule("c", named).await.ok(200)["next"], set["next"]);
}

async fn skipped(server: &Server) -> Option<f64> {
    server.metric("delay_queue_schedule_skipped_total").await
}

pub async fn an_instant_is_skipped_while_the_last_job_runs(server: Server) {
    let body = json!({ "topic": "t", "every": "1s", "overlap": "skip", "ttr": "1h" });
    server.set_schedule("s", body).await.ok(201);
    let held = server.pop_one("t").await;
    let last = server.get("/schedules/s").await.ok(200)["last"].take();
    assert_shows(&last, json!({"id": held["id"], "state": "reserved"}));
    assert_eq!(server.pop("t/pop?wait=2500ms").await, [] as [Value; 0]);
    eventually!(
        skipped(&server).await.is_some_and(|count| count >= 2.0),
        "the instants are not skipped"
    );
    server.act(id_of(&held), "finish", "").await.is_done();
    let next = server.pop_one("t").await;
    assert!(millis(&next["scheduled_at"]) >= millis(&held["scheduled_at"]) + 3_000, "{next}");
}

pub async fn an_instant_is_put_if_the_last_job_has_left_the_topic(server: Server) {
    server.set_topic("work", json!({ "dead_to": "graves" })).await;
    let body = json!({ "topic": "work", "every": "1s", "overlap": "skip", "max_attempts": 1 });
    server.set_schedule("s", body).await.ok(201);
    let first = server.pop_one("work").await;
    let id = id_of(&first);
    server.act(id, "release", "").await.ok(200);
    assert_eq!(server.job(id).await["topic"], "graves");
    assert_ne!(server.pop_one("work").await["id"], id);
}

pub async fn an_instant_waits_for_the_last_job_and_the_last_run(server: Server) {
    let body = json!({ "topic": "t", "every": "2s", "overlap": "skip", "ttr": "1h" });
    server.set_schedule("s", body).await.ok(201);
    let finish = async |job: &Value| server.act(id_of(job), "finish", "").await.is_done();
    let is_skipped = async || {
        let before = skipped(&server).await;
        eventually!(skipped(&server).await != before, "no instant is skipped");
    };
    // The run ends before the scheduled job.
    let scheduled = server.pop_one("t").await;
    let run = act(&server, "s", "run").await.ok(201);
    assert_eq!(server.get("/schedules/s").await.ok(200)["last"]["id"], run["id"]);
    finish(&server.pop_one("t").await).await;
    is_skipped().await;
    assert_eq!(server.pop("t/pop?wait=0s").await, [] as [Value; 0]);
    finish(&scheduled).await;
    let next = server.pop_one("t").await;
    assert!(millis(&next["scheduled_at"]) > millis(&scheduled["scheduled_at"]), "{next}");
    server.delete("/schedules/s").await;
    // A run while no scheduled job has been put.
    let skips = json!({ "topic": "u", "every": "1s", "overlap": "skip" });
    let far = with(&skips, json!({ "start": "2090-01-01T00:00:00Z" }));
    server.set_schedule("r", far).await.ok(201);
    act(&server, "r", "pause").await.ok(200);
    server.set_schedule("r", skips).await.ok(200);
    let run = act(&server, "r", "run").await.ok(201);
    act(&server, "r", "resume").await.ok(200);
    is_skipped().await;
    let held = server.pop_one("u").await;
    assert_eq!(held["id"], run["id"]);
    finish(&held).await;
    assert_ne!(server.pop_one("u").await["id"], run["id"]);
}

pub async fn each_concurrent_run_is_a_job_of_its_own(server: Server) {
    server.set_schedule("s", json!({ "topic": "t", "cron": "0 0 1 1 *" })).await.ok(201);
    let runs = join_all((0..60).map(|_| act(&server, "s", "run"))).await;
    let ids: BTreeSet<String> = runs.iter().map(|run| id_of(&run.ok(201)).to_owned()).collect();
    assert_eq!(ids.len(), 60, "{ids:?}");
    for id in ids {
        server.job(&id).await;
    }
}

pub async fn a_jitter_delays_each_job_within_its_bounds(server: Server) {
    server.set_schedule("s", json!({ "topic": "t", "every": "1s", "jitter": "1h" })).await.ok(201);
    let delayed = async || server.all_pages("/topics/t/jobs?state=delayed").await;
    let jobs = until(delayed, |jobs| jobs.len() >= 2).await;
    for job in &jobs {
        let delay = millis(&job["due_at"]) - millis(&job["scheduled_at"]);
        assert!((0..=3_600_000).contains(&delay), "{job}");
    }
}

pub async fn schedules_are_listed_by_name_prefix_and_topic(server: Server) {
    assert_eq!(server.get("/schedules").await.ok(200), json!({ "schedules": [], "cursor": null }));
    for (name, topic) in [("b", "t"), ("a.2", "u"), ("a.1", "t"), ("c", "u"), ("a.3", "t")] {
        server.set_schedule(name, json!({ "topic": topic, "every": "1d" })).await.ok(201);
    }
    for (query, expected) in [
        ("", vec!["a.1", "a.2", "a.3", "b", "c"]),
        ("?prefix=a.", vec!["a.1", "a.2", "a.3"]),
        ("?topic=u", vec!["a.2", "c"]),
        ("?topic=t&prefix=a", vec!["a.1", "a.3"]),
        ("?topic=t&limit=1", vec!["a.1", "a.3", "b"]),
    ] {
        let listed = server.all_pages(&format!("/schedules{query}")).await;
        let names: Vec<_> = listed.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, expected, "{query}");
    }
    let first = server.get("/schedules?topic=t&limit=1").await.ok(200);
    assert_eq!(first["schedules"].as_array().map(Vec::len), Some(1));
}

pub async fn a_token_sees_only_schedules_of_its_topics(server: Server) {
    let all = json!({ "admin": ["*"], "manage": ["*"], "put": ["*"] });
    let root = server.token("", "root", all).await;
    let a = server.token(&root, "a", json!({ "manage": ["a"], "put": ["a"] })).await;
    let reader = server.token(&root, "reader", json!({ "read": ["a"] })).await;
    let set = async |token: &str, name: &str, topic: &str| {
        let schedule = json!({ "topic": topic, "every": "1d" });
        server.call_as(token, Method::PUT, &format!("/schedules/{name}"), schedule).await
    };
    set(&root, "other", "b").await.ok(201);
    set(&a, "own", "a").await.ok(201);
    set(&a, "own", "b").await.problem(403, "forbidden");
    set(&a, "other", "a").await.problem(409, "schedule_exists");
    assert_not_found(&server, &a, "other").await;
    for token in [&a, &reader] {
        let list = server.call_as(token, Method::GET, "/schedules", "").await.ok(200);
        let names = list["schedules"].as_array().expect("schedules").iter().map(|one| &one["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["own"]);
    }
}

pub async fn only_a_token_with_read_sees_what_jobs_contain(server: Server) {
    let all = json!({ "admin": ["*"], "manage": ["*"], "put": ["*"], "read": ["*"] });
    let root = server.token("", "root", all).await;
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        server.call_as(token, method, path, body).await
    };
    let scopes = json!({ "manage": ["a", "b"], "put": ["a", "b"], "read": ["b"] });
    let manager = &server.token(&root, "manager", scopes).await;
    let (content, headers) = (json!({ "secret": 1 }), json!({ "x-a": "secret" }));
    let set = json!({ "topic": "a", "every": "1d", "body": content, "headers": headers });
    call(&root, Method::PUT, "/schedules/s", set).await.ok(201);
    let is_hidden = |shown: &Value| {
        let hidden = json!(["body", "headers"]);
        assert_shows(shown, json!({ "hidden": hidden, "body": null, "headers": null }));
    };
    let shown = call(manager, Method::GET, "/schedules/s", json!({})).await.ok(200);
    is_hidden(&shown);
    is_hidden(&call(manager, Method::GET, "/schedules", json!({})).await.ok(200)["schedules"][0]);
    for action in ["pause", "resume"] {
        let path = format!("/schedules/s/{action}");
        is_hidden(&call(manager, Method::POST, &path, json!({})).await.ok(200));
    }
    // The answer of its GET can be sent back, and keeps the hidden fields.
    let mut changed = shown.clone();
    changed["ttr"] = json!(77);
    is_hidden(&call(manager, Method::PUT, "/schedules/s", changed.clone()).await.ok(200));
    let whole = call(&root, Method::GET, "/schedules/s", json!({})).await.ok(200);
    assert_shows(&whole, json!({"body": content, "headers": headers}));
    assert_eq!((&whole["ttr"], whole.get("hidden")), (&json!(77), None), "{whole}");
    // Another topic, which it may read, must not show it.
    changed["topic"] = json!("b");
    call(manager, Method::PUT, "/schedules/s", changed).await.invalid("topic");
    for (name, fields) in [
        ("new", json!({ "topic": "a", "hidden": ["body"] })),
        ("s", json!({ "topic": "a", "hidden": ["body"], "body": 1 })),
        ("s", json!({ "topic": "a", "hidden": ["headers"], "headers": {} })),
        ("s", json!({ "topic": "a", "hidden": ["ttr"] })),
    ] {
        let body = with(&fields, json!({ "every": "1d" }));
        let refused = call(manager, Method::PUT, &format!("/schedules/{name}"), body).await;
        let problem = refused.problem(422, "invalid_field");
        assert!(problem["field"].as_str().expect("a field").starts_with("hidden"), "{problem}");
    }
    // Without `hidden`, a field that is left out gets its default.
    let plain = json!({ "topic": "a", "every": "1d" });
    call(manager, Method::PUT, "/schedules/s", plain).await.ok(200);
    let whole = call(&root, Method::GET, "/schedules/s", json!({})).await.ok(200);
    assert_eq!((&whole["body"], whole.get("headers")), (&Value::Null, None), "{whole}");
}

/// A schedule does not lose an instant whose job has no room, and does not hold up others.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_no_room_is_put_later() {
    let server = Server::on_file_with(|settings| settings.limits.topic_jobs = Some(1)).await;
    server.put(r#"{ "topic": "full", "id": "first", "delay": "1h" }"#).await;
    let body = json!({ "topic": "full", "every": "1s" });
    let set = server.set_schedule("waits", body).await.ok(201);
    server
        .set_schedule("other", json!({ "topic": "t", "every": "1s", "overlap": "skip" }))
        .await
        .ok(201);
    fired(&server, "t", 3).await;
    assert_eq!(server.get("/schedules/waits").await.ok(200)["last"], Value::Null);
    act(&server, "waits", "run").await.problem(429, "topic_full");
    assert_eq!(server.delete("/jobs/first").await.status, 200);
    let job = server.pop_one("full").await;
    assert_eq!(job["scheduled_at"], set["next"][0], "the first instant was lost");
}

async fn take_ids(server: &Server, name: &str, set: &Value, put: &Value) -> Vec<String> {
    let instants = (millis(&set["next"][0])..).step_by(1_000).skip(1).take(4);
    let ids: Vec<String> = instants.map(|instant| format!("{name}:{instant}")).collect();
    for id in &ids {
        server.put(with(put, json!({ "id": id }))).await;
    }
    ids
}

/// A client may guess the ids of instants.
pub async fn a_job_of_a_client_suppresses_no_instant(server: Server) {
    // A schedule may put more jobs until it is deleted, so each has a topic of its own.
    for (name, fires, topic) in [("other-topic", "t", "own"), ("same-topic", "u", "u")] {
        let set = server.set_schedule(name, json!({ "topic": fires, "every": "1s" })).await.ok(201);
        let ids = take_ids(&server, name, &set, &json!({ "topic": topic, "delay": "1h" })).await;
        let jobs = fired(&server, fires, 7).await;
        server.delete(&format!("/schedules/{name}")).await;
        let mut instants: Vec<i64> = jobs.iter().map(|job| millis(&job["scheduled_at"])).collect();
        instants.sort_unstable();
        assert!(instants.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{instants:?}");
        let mut marked = 0;
        for job in &jobs {
            let (id, instant) = (id_of(job), millis(&job["scheduled_at"]));
            let plain = format!("{name}:{instant}");
            if ids.contains(&plain) {
                let mark = id.strip_prefix(&format!("{plain}:")).expect("a longer id");
                assert_eq!(mark.len(), 6, "{id}");
                marked += 1;
            } else {
                assert_eq!(id, plain);
            }
        }
        assert!(marked >= 2, "{jobs:?}");
        for id in ids {
            assert_eq!(server.job(&id).await["topic"], topic, "{id}");
        }
    }
    assert!(server.metric("delay_queue_schedule_conflicts_total").await >= Some(4.0));
}
