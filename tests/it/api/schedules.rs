//! Schedules: their routes, and the jobs that they put.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    api::server::{Answer, Server},
    support::patience::patience,
};

async fn put(server: &Server, name: &str, body: &Value) -> Answer {
    server.call(Method::PUT, &format!("/schedules/{name}"), body.to_string()).await
}

async fn act(server: &Server, name: &str, action: &str) -> Answer {
    server.post(&format!("/schedules/{name}/{action}"), "").await
}

fn millis(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("RFC 3339");
    time.as_millisecond()
}

/// Pops the next jobs of a topic until there are `count`, and finishes them.
async fn fired(server: &Server, topic: &str, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    while all.len() < count {
        let job = server.pop_one(topic).await;
        let id = job["id"].as_str().expect("an id");
        assert_eq!(server.post(&format!("/jobs/{id}/finish"), "").await.status, 204);
        all.push(job);
    }
    all
}

pub async fn a_schedule_is_set_shown_sent_back_and_deleted(server: Server) {
    for (method, path) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::POST, "/pause"),
        (Method::POST, "/resume"),
        (Method::POST, "/run"),
    ] {
        let answer = server.call(method, &format!("/schedules/s{path}"), "").await;
        answer.problem(404, "schedule_not_found");
    }
    let least = put(&server, "s", &json!({ "topic": "t", "cron": "0 9 * * MON" })).await.ok(201);
    assert_eq!(least["timezone"], "UTC");
    for (field, expected) in [
        ("name", json!("s")),
        ("topic", json!("t")),
        ("overlap", json!("put")),
        ("missed", json!("once")),
        ("body", Value::Null),
        ("paused", json!(false)),
        ("last", Value::Null),
    ] {
        assert_eq!(least[field], expected, "{field}: {least}");
    }
    assert_eq!(least["next"].as_array().expect("times").len(), 5);
    assert_eq!(put(&server, "s", &least).await.ok(200), least, "it cannot be sent back");
    let whole = json!({
        "topic": "u", "every": "90s", "anchor": "2030-01-01T00:00:00Z", "start": "2030-02-01T00:00:00Z",
        "end": "2030-02-01T00:05:00Z", "jitter": "10s", "overlap": "skip", "missed": "all",
        "body": { "a": [1, 2.50] }, "ttr": "5m", "max_attempts": 3, "backoff": ["1s", "1m"],
        "finished_retention": "1h", "priority": 9, "expires_after": "1d", "headers": { "X-A": "b" },
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    });
    let shown = put(&server, "s", &whole).await.ok(200);
    assert_eq!(shown["description"], "every 90 seconds");
    assert_eq!(shown["next"][0], "2030-02-01T00:00:00.000Z");
    assert_eq!(shown["next"].as_array().expect("times").len(), 4, "it ends: {shown}");
    let of = |field: &str| shown[field].clone();
    assert_eq!((of("every"), of("ttr"), of("priority")), (json!(90), json!(300), json!(9)));
    assert_eq!((of("overlap"), of("missed")), (json!("skip"), json!("all")));
    assert_eq!((of("backoff"), of("headers")), (json!([1, 60]), json!({ "X-A": "b" })));
    let with_body = r#"{"topic":"u","every":"1d","body":{ "a": [1, 2.50] }}"#;
    server.call(Method::PUT, "/schedules/exact", with_body).await.ok(201);
    let text = server.get("/v1/schedules/exact").await.text;
    assert!(text.contains(r#""body":{ "a": [1, 2.50] }"#), "{text}");
    assert_eq!(put(&server, "s", &shown).await.ok(200), shown, "it cannot be sent back");
    assert_eq!(server.delete("/schedules/s").await.status, 204);
    server.get("/schedules/s").await.problem(404, "schedule_not_found");
}

pub async fn each_instant_puts_one_job_at_its_time(server: Server) {
    let body = json!({
        "topic": "t", "every": "1s", "body": { "n": 1 }, "headers": { "a": "b" }, "ttr": 77,
        "finished_retention": "1h",
    });
    let set = put(&server, "tick.s", &body).await.ok(201);
    let mut jobs = fired(&server, "t", 3).await;
    // Two that a late server puts together may come in any order.
    jobs.sort_by_key(|job| millis(&job["scheduled_at"]));
    let first = millis(&set["next"][0]);
    for (job, instant) in jobs.iter().zip((first..).step_by(1_000)) {
        assert_eq!(job["id"], format!("tick.s:{instant}"));
        assert_eq!(millis(&job["scheduled_at"]), instant);
        assert!(millis(&job["created_at"]) >= instant, "it was put before its instant: {job}");
        assert_eq!((&job["body"], &job["ttr"]), (&json!({ "n": 1 }), &json!(77)));
        assert_eq!(job["headers"], json!({ "a": "b" }));
    }
    let kept = server.get(&format!("/jobs/tick.s:{first}")).await.ok(200);
    assert_eq!((&kept["state"], millis(&kept["scheduled_at"])), (&json!("finished"), first));
    let shown = server.get("/schedules/tick.s").await.ok(200);
    let last = shown["last"]["id"].as_str().expect("an id");
    let instant: i64 = last.strip_prefix("tick.s:").expect("its id").parse().expect("a number");
    assert!(instant >= first + 2_000, "{shown}");
    assert_eq!(millis(&shown["next"][0]), instant + 1_000);
}

pub async fn a_bad_timing_is_refused_by_its_field(server: Server) {
    for (fields, field) in [
        (json!({}), "cron"),
        (json!({ "cron": null, "every": null }), "cron"),
        (json!({ "cron": "* * * * *", "every": "1m" }), "every"),
        (json!({ "every": "999ms" }), "every"),
        (json!({ "every": 0 }), "every"),
        (json!({ "cron": "0 0 31 2 *" }), "cron"),
        (json!({ "cron": "every day" }), "cron"),
        (json!({ "cron": "" }), "cron"),
        (json!({ "cron": "*".repeat(300) }), "cron"),
        (json!({ "cron": "* * * * *", "timezone": "Mars/Olympus" }), "timezone"),
        (json!({ "every": "1m", "timezone": "UTC" }), "timezone"),
        (
            json!({ "every": "1m", "start": "2030-01-02T00:00:00Z", "end": "2030-01-01T00:00:00Z" }),
            "end",
        ),
    ] {
        let preview = server.post("/schedules/preview", fields.to_string()).await;
        assert_eq!(preview.problem(422, "invalid_field")["field"], field, "{fields}");
        let mut body = fields.clone();
        body["topic"] = json!("t");
        let refused = put(&server, "s", &body).await.problem(422, "invalid_field");
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
    for (name, body, field) in [
        ("s", json!({ "every": "1m" }), "topic"),
        ("s", json!({ "topic": "t", "every": "1m", "id": "a" }), "id"),
        ("s", json!({ "topic": "t", "every": "1m", "delay": 1 }), "delay"),
        ("s", json!({ "topic": "t", "every": "1m", "overlap": "queue" }), "overlap"),
        ("s", json!({ "topic": "t", "every": "1m", "name": "other" }), "name"),
        ("s", json!({ "topic": "t", "every": "1m", "ttr": "2d" }), "ttr"),
        (&"n".repeat(108), json!({ "topic": "t", "every": "1m" }), "name"),
        ("a:b", json!({ "topic": "t", "every": "1m" }), "name"),
    ] {
        let refused = put(&server, name, &body).await.problem(422, "invalid_field");
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
    let name = "n".repeat(107);
    put(&server, &name, &json!({ "topic": "t", "every": "1s" })).await.ok(201);
    assert_eq!(fired(&server, "t", 1).await[0]["id"].as_str().expect("an id").len(), 121);
    act(&server, "preview", "pause").await.problem(422, "invalid_field");
    put(&server, "preview", &json!({})).await.problem(405, "method_not_allowed");
}

pub async fn a_preview_shows_the_next_instants_and_words(server: Server) {
    let timing = json!({ "cron": "CRON_TZ=Europe/Berlin 30 6 * * mon-fri" });
    let preview = server.post("/schedules/preview", timing.to_string()).await.ok(200);
    let next = preview["next"].as_array().expect("times");
    assert_eq!(next.len(), 5);
    assert!(next.windows(2).all(|pair| millis(&pair[0]) < millis(&pair[1])), "{preview}");
    assert!(preview["description"].as_str().expect("words").contains("Berlin"), "{preview}");
    let daily = server.post("/schedules/preview", json!({ "cron": "@daily" }).to_string()).await;
    let next = daily.ok(200)["next"].take();
    assert!(next[0].as_str().expect("a time").ends_with("T00:00:00.000Z"), "{next}");
    assert_eq!(server.get("/schedules").await.ok(200)["schedules"], json!([]));
}

pub async fn a_paused_schedule_puts_nothing_unless_it_is_run(server: Server) {
    put(&server, "s", &json!({ "topic": "t", "every": "1s" })).await.ok(201);
    fired(&server, "t", 1).await;
    let paused = act(&server, "s", "pause").await.ok(200);
    assert_eq!((&paused["paused"], &paused["next"][4].is_string()), (&json!(true), &true));
    // Another PUT does not resume it.
    let again = put(&server, "s", &json!({ "topic": "t", "every": "1s" })).await.ok(200);
    assert_eq!(again["paused"], true);
    // A pass that had begun before the pause may put one more job.
    let late = server.pop("t/pop?wait=2500ms&count=10").await;
    assert!(late.len() <= 1, "{late:?}");
    let run = act(&server, "s", "run").await;
    let job = run.ok(201);
    assert_eq!((&job["topic"], &job["state"]), (&json!("t"), &json!("ready")));
    let id = job["id"].as_str().expect("an id");
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
    let set = put(&server, "s", &body).await.ok(201);
    let mut other = body.clone();
    other["body"] = json!("changed");
    assert_eq!(put(&server, "s", &other).await.ok(200)["next"], set["next"]);
    other["anchor"] = json!("2020-01-01T00:08:00Z");
    let changed = put(&server, "s", &other).await.ok(200);
    assert_ne!(changed["next"], set["next"]);
    let cron = json!({ "topic": "t", "cron": "0 0 1 1 *" });
    let set = put(&server, "c", &cron).await.ok(201);
    let named = json!({ "topic": "t", "cron": "0 0 1 1 *", "timezone": "UTC" });
    assert_eq!(put(&server, "c", &named).await.ok(200)["next"], set["next"]);
}

pub async fn an_instant_is_skipped_while_the_last_job_runs(server: Server) {
    let body = json!({ "topic": "t", "every": "1s", "overlap": "skip", "ttr": "1h" });
    put(&server, "s", &body).await.ok(201);
    let held = server.pop_one("t").await;
    let last = server.get("/schedules/s").await.ok(200)["last"].take();
    assert_eq!((&last["id"], &last["state"]), (&held["id"], &json!("reserved")));
    assert_eq!(server.pop("t/pop?wait=2500ms").await, [] as [Value; 0]);
    let skipped = async || {
        let metrics = server.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("delay_queue_schedule_skipped"));
        let count = line.and_then(|line| line.rsplit(' ').next()).expect("a counter");
        count.parse::<u64>().expect("a whole number")
    };
    eventually!(skipped().await >= 2, "the instants are not skipped");
    let id = held["id"].as_str().expect("an id");
    assert_eq!(server.post(&format!("/jobs/{id}/finish"), "").await.status, 204);
    let next = server.pop_one("t").await;
    assert!(millis(&next["scheduled_at"]) >= millis(&held["scheduled_at"]) + 3_000, "{next}");
}

pub async fn an_instant_is_put_if_the_last_job_has_left_the_topic(server: Server) {
    server.call(Method::PUT, "/topics/work", json!({ "dead_to": "graves" }).to_string()).await;
    let body = json!({ "topic": "work", "every": "1s", "overlap": "skip", "max_attempts": 1 });
    put(&server, "s", &body).await.ok(201);
    let first = server.pop_one("work").await;
    let id = first["id"].as_str().expect("an id");
    server.post(&format!("/jobs/{id}/release"), "").await.ok(200);
    assert_eq!(server.get(&format!("/jobs/{id}")).await.ok(200)["topic"], "graves");
    assert_ne!(server.pop_one("work").await["id"], id);
}

pub async fn an_instant_waits_for_the_last_job_and_the_last_run(server: Server) {
    let body = json!({ "topic": "t", "every": "2s", "overlap": "skip", "ttr": "1h" });
    put(&server, "s", &body).await.ok(201);
    let finish = async |job: &Value| {
        let id = job["id"].as_str().expect("an id");
        assert_eq!(server.post(&format!("/jobs/{id}/finish"), "").await.status, 204);
    };
    let skipped = async || {
        let metrics = server.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("delay_queue_schedule_skipped"));
        line.and_then(|line| line.rsplit(' ').next()).expect("a counter").to_owned()
    };
    let is_skipped = async || {
        let before = skipped().await;
        eventually!(skipped().await != before, "no instant is skipped");
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
    let far = json!({ "topic": "u", "every": "1s", "start": "2090-01-01T00:00:00Z" });
    put(&server, "r", &far).await.ok(201);
    act(&server, "r", "pause").await.ok(200);
    put(&server, "r", &json!({ "topic": "u", "every": "1s", "overlap": "skip" })).await.ok(200);
    let run = act(&server, "r", "run").await.ok(201);
    act(&server, "r", "resume").await.ok(200);
    is_skipped().await;
    let held = server.pop_one("u").await;
    assert_eq!(held["id"], run["id"]);
    finish(&held).await;
    assert_ne!(server.pop_one("u").await["id"], run["id"]);
}

pub async fn each_concurrent_run_is_a_job_of_its_own(server: Server) {
    put(&server, "s", &json!({ "topic": "t", "cron": "0 0 1 1 *" })).await.ok(201);
    let runs = futures::future::join_all((0..60).map(|_| act(&server, "s", "run"))).await;
    let ids: std::collections::BTreeSet<String> =
        runs.iter().map(|run| run.ok(201)["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(ids.len(), 60, "{ids:?}");
    for id in ids {
        server.get(&format!("/jobs/{id}")).await.ok(200);
    }
}

pub async fn a_jitter_delays_each_job_within_its_bounds(server: Server) {
    let body = json!({ "topic": "t", "every": "1s", "jitter": "1h" });
    put(&server, "s", &body).await.ok(201);
    let end = tokio::time::Instant::now() + patience();
    loop {
        let page = server.get("/topics/t/jobs?state=delayed").await.ok(200);
        let jobs = page["jobs"].as_array().expect("jobs").clone();
        if jobs.len() >= 2 {
            for job in &jobs {
                let delay = millis(&job["due_at"]) - millis(&job["scheduled_at"]);
                assert!((0..=3_600_000).contains(&delay), "{job}");
            }
            break;
        }
        assert!(tokio::time::Instant::now() < end, "no delayed jobs: {page}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await; // no event reports them
    }
}

pub async fn schedules_are_listed_by_name_prefix_and_topic(server: Server) {
    assert_eq!(server.get("/schedules").await.ok(200), json!({ "schedules": [], "cursor": null }));
    for (name, topic) in [("b", "t"), ("a.2", "u"), ("a.1", "t"), ("c", "u"), ("a.3", "t")] {
        put(&server, name, &json!({ "topic": topic, "every": "1d" })).await.ok(201);
    }
    let names = async |query: &str| {
        let page = server.get(&format!("/schedules{query}")).await.ok(200);
        let schedules = page["schedules"].as_array().expect("schedules");
        let names = schedules.iter().map(|schedule| schedule["name"].as_str().expect("a name"));
        (names.map(str::to_owned).collect::<Vec<_>>(), page["cursor"].clone())
    };
    assert_eq!(names("").await.0, ["a.1", "a.2", "a.3", "b", "c"]);
    assert_eq!(
        names("?prefix=a.").await,
        (["a.1", "a.2", "a.3"].map(str::to_owned).to_vec(), Value::Null)
    );
    assert_eq!(names("?topic=u").await.0, ["a.2", "c"]);
    assert_eq!(names("?topic=t&prefix=a").await.0, ["a.1", "a.3"]);
    let (mut all, mut query) = (Vec::new(), "?topic=t&limit=1".to_owned());
    loop {
        let (page, cursor) = names(&query).await;
        assert!(page.len() <= 1);
        all.extend(page);
        let Some(cursor) = cursor.as_str() else { break };
        query = format!("?topic=t&limit=1&cursor={cursor}");
    }
    assert_eq!(all, ["a.1", "a.3", "b"]);
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
        ("?topic=a:b", "topic"),
        ("?prefix=%20", "prefix"),
        ("?cursor=%20", "cursor"),
        ("?state=dead", "state"),
    ] {
        let refused = server.get(&format!("/schedules{query}")).await.problem(422, "invalid_field");
        assert_eq!(refused["field"], field, "{query}");
    }
}

pub async fn a_token_sees_only_schedules_of_its_topics(server: Server) {
    let root =
        json!({ "name": "root", "scopes": { "admin": ["*"], "manage": ["*"], "put": ["*"] } });
    let root = server.post("/tokens", root.to_string()).await.ok(201)["token"].take();
    let root = root.as_str().expect("a token").to_owned();
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        let request = server.request(method, path).bearer_auth(token).body(body.to_string());
        Server::send(request).await
    };
    let token = async |name: &str, scopes: Value| {
        let body = json!({ "name": name, "scopes": scopes });
        let made = call(&root, Method::POST, "/tokens", body).await.ok(201);
        made["token"].as_str().expect("a token").to_owned()
    };
    let a = token("a", json!({ "manage": ["a"], "put": ["a"] })).await;
    let no_put = token("no-put", json!({ "manage": ["a"] })).await;
    let reader = token("reader", json!({ "read": ["a"] })).await;
    let schedule = |topic: &str| json!({ "topic": topic, "every": "1d" });
    call(&root, Method::PUT, "/schedules/other", schedule("b")).await.ok(201);
    call(&a, Method::PUT, "/schedules/own", schedule("a")).await.ok(201);
    call(&a, Method::PUT, "/schedules/own", schedule("b")).await.problem(403, "forbidden");
    call(&no_put, Method::PUT, "/schedules/x", schedule("a")).await.problem(403, "forbidden");
    call(&no_put, Method::POST, "/schedules/own/run", json!({})).await.problem(403, "forbidden");
    call(&no_put, Method::DELETE, "/schedules/own", json!({})).await.problem(403, "forbidden");
    call(&reader, Method::POST, "/schedules/own/pause", json!({})).await.problem(403, "forbidden");
    call(&reader, Method::GET, "/schedules/own", json!({})).await.ok(200);
    call(&a, Method::PUT, "/schedules/other", schedule("a")).await.problem(409, "schedule_exists");
    for (method, path) in [
        (Method::GET, "/schedules/other"),
        (Method::DELETE, "/schedules/other"),
        (Method::POST, "/schedules/other/pause"),
        (Method::POST, "/schedules/other/resume"),
        (Method::POST, "/schedules/other/run"),
    ] {
        call(&a, method, path, json!({})).await.problem(404, "schedule_not_found");
    }
    for token in [&a, &reader] {
        let list = call(token, Method::GET, "/schedules", json!({})).await.ok(200);
        let schedules = list["schedules"].as_array().expect("schedules");
        assert_eq!(schedules.len(), 1, "{list}");
        assert_eq!(schedules[0]["name"], "own");
    }
    call(&a, Method::POST, "/schedules/own/run", json!({})).await.ok(201);
}

pub async fn only_a_token_with_read_sees_what_jobs_contain(server: Server) {
    let all = json!({ "admin": ["*"], "manage": ["*"], "put": ["*"], "read": ["*"] });
    let root = server.token("", "root", all).await;
    let call = async |token: &str, method: Method, path: &str, body: Value| {
        let request = server.request(method, path).bearer_auth(token).body(body.to_string());
        Server::send(request).await
    };
    let scopes = json!({ "manage": ["a", "b"], "put": ["a", "b"], "read": ["b"] });
    let manager = &server.token(&root, "manager", scopes).await;
    let (content, headers) = (json!({ "secret": 1 }), json!({ "x-a": "secret" }));
    let set = json!({ "topic": "a", "every": "1d", "body": content, "headers": headers });
    call(&root, Method::PUT, "/schedules/s", set).await.ok(201);
    let is_hidden = |shown: &Value| {
        assert_eq!(shown["hidden"], json!(["body", "headers"]), "{shown}");
        assert_eq!((shown.get("body"), shown.get("headers")), (None, None), "{shown}");
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
    assert_eq!((&whole["body"], &whole["headers"]), (&content, &headers), "{whole}");
    assert_eq!((&whole["ttr"], whole.get("hidden")), (&json!(77), None), "{whole}");
    // Another topic, which it may read, must not show it.
    changed["topic"] = json!("b");
    let refused = call(manager, Method::PUT, "/schedules/s", changed.clone()).await;
    assert_eq!(refused.problem(422, "invalid_field")["field"], "topic");
    for (name, fields) in [
        ("new", json!({ "topic": "a", "hidden": ["body"] })),
        ("s", json!({ "topic": "a", "hidden": ["body"], "body": 1 })),
        ("s", json!({ "topic": "a", "hidden": ["headers"], "headers": {} })),
        ("s", json!({ "topic": "a", "hidden": ["ttr"] })),
    ] {
        let mut body = fields.clone();
        body["every"] = json!("1d");
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
    let set = put(&server, "waits", &body).await.ok(201);
    put(&server, "other", &json!({ "topic": "t", "every": "1s", "overlap": "skip" })).await.ok(201);
    fired(&server, "t", 3).await;
    assert_eq!(server.get("/schedules/waits").await.ok(200)["last"], Value::Null);
    act(&server, "waits", "run").await.problem(429, "topic_full");
    assert_eq!(server.delete("/jobs/first").await.status, 200);
    let job = server.pop_one("full").await;
    assert_eq!(job["scheduled_at"], set["next"][0], "the first instant was lost");
}

/// Puts jobs with the ids of the next instants of a schedule that was just set.
async fn take_ids(server: &Server, name: &str, set: &Value, put: &Value) -> Vec<String> {
    let first = millis(&set["next"][0]);
    let mut ids = Vec::new();
    for instant in (first..).step_by(1_000).skip(1).take(4) {
        let mut put = put.clone();
        put["id"] = json!(format!("{name}:{instant}"));
        server.put(&put.to_string()).await;
        ids.push(format!("{name}:{instant}"));
    }
    ids
}

async fn conflicts(server: &Server) -> u64 {
    let metrics = server.get("/metrics").await.text;
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("delay_queue_schedule_conflicts_total "));
    count.expect("a counter").parse().expect("a number")
}

/// A client may guess the ids of instants.
pub async fn a_job_of_a_client_suppresses_no_instant(server: Server) {
    for (name, topic) in [("other-topic", "own"), ("same-topic", "t")] {
        let set = put(&server, name, &json!({ "topic": "t", "every": "1s" })).await.ok(201);
        let ids = take_ids(&server, name, &set, &json!({ "topic": topic, "delay": "1h" })).await;
        let jobs = fired(&server, "t", 7).await;
        server.delete(&format!("/schedules/{name}")).await;
        let mut instants: Vec<i64> = jobs.iter().map(|job| millis(&job["scheduled_at"])).collect();
        instants.sort_unstable();
        assert!(instants.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{instants:?}");
        let mut marked = 0;
        for job in &jobs {
            let (id, instant) = (job["id"].as_str().expect("an id"), millis(&job["scheduled_at"]));
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
            assert_eq!(server.get(&format!("/jobs/{id}")).await.ok(200)["topic"], topic, "{id}");
        }
    }
    assert!(conflicts(&server).await >= 4);
}
