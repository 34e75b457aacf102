//! `delay-queue doctor`: its output, its exit code, its repairs, and that it changes nothing
//! without being asked.

use crate::start::prelude::*;

/// Creates a store with one job, and stops its server.
async fn create_store(place: &WorkDir, settings: &str) {
    let mut server = place.server(settings).await;
    let put = json!({"topic": "t", "id": "a", "delay": "1h"});
    assert!(server.post("/jobs", put).await.is_some_and(|(status, _)| status == 201));
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
}

/// Returns all keys with their contents.
fn dump(redis: &Redis) -> Vec<(String, String)> {
    let keys = ask(redis.port(), &["KEYS", "*"]).expect("an answer").texts();
    let mut all: Vec<(String, String)> = keys
        .into_iter()
        .map(|key| (key.clone(), format!("{:?}", ask(redis.port(), &["DUMP", &key]))))
        .collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_accepts_a_suitable_redis() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "");
    let said =
        place.assert_healthy(&settings, &["no store there yet", "1 bucket (0)", "servers     0"]);
    assert!(said.contains("appendfsync everysec") && said.contains("no replica"), "{said}");
    assert_empty(&redis);
    place.assert_healthy(&store(&redis.url(), "buckets = 3"), &["no store there yet"]);
    assert_empty(&redis);

    create_store(&place, &settings).await;
    let before = dump(&redis);
    assert_eq!(
        before.len(),
        3 + 4,
        "layout, key of reservations, incarnation; pool, bucket, topics and delayed"
    );
    place.assert_healthy(
        &settings,
        &["layout      schema=6", "jobs        1 delayed, 0 ready", "servers     0"],
    );
    assert_eq!(dump(&redis), before);

    let _server = place.server(&settings).await;
    place.assert_healthy(&settings, &["servers     1 of delay-queue running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_shows_masters_and_buckets_of_a_cluster() {
    let (place, cluster) = (WorkDir::new(), shared::cluster());
    let prefix = shared::prefix();
    let settings = store(&cluster.url(), &format!("prefix = \"{prefix}\""));
    let check = |words: &[&str]| {
        let said = place.assert_healthy(&settings, words);
        let mut sum: usize = 0;
        for port in cluster.masters() {
            let server = format!("server      127.0.0.1:{port}: mode cluster, version ");
            let after = said.split(&server).nth(1).unwrap_or_else(|| panic!("{server}: {said}"));
            let buckets = after.lines().nth(1).unwrap_or_default().trim_start();
            let count =
                buckets.split(" buckets (").next().and_then(|count| count.parse::<usize>().ok());
            sum += count.unwrap_or_else(|| panic!("no number of buckets in {buckets:?}"));
        }
        assert_eq!(sum, 16, "{said}");
        for count in [16, 64, 256] {
            let spread = |line: &&str| line.contains(&format!(" {count}: over 3 masters "));
            let line = said.lines().find(spread).unwrap_or_else(|| panic!("{count}: {said}"));
            assert!(line.contains("over 6 masters") && line.contains(" × its share"), "{line}");
        }
        assert_eq!(said.matches("\nserver ").count(), 3, "{said}");
    };
    let keys = || {
        let of = |port| ask(port, &["KEYS", &format!("*{prefix}:*")]).expect("an answer").texts();
        cluster.masters().into_iter().flat_map(of).count()
    };
    check(&["no store there yet"]);
    assert_eq!(keys(), 0);
    create_store(&place, &settings).await;
    let before = keys();
    check(&["layout      schema=6", "jobs        1 delayed"]);
    assert_eq!(keys(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_problems_of_a_redis() {
    let place = WorkDir::new();
    let no_aof = Redis::with(&["--appendonly", "no"]);
    place.assert_problem(&store(&no_aof.url(), ""), &["appendonly is off", "accept_data_loss"]);
    place.assert_healthy(&store(&no_aof.url(), "accept_data_loss = true"), &["aof_enabled 0"]);
    assert_empty(&no_aof);
    let evicts = Redis::with(&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"]);
    place.assert_problem(&store(&evicts.url(), ""), &["maxmemory-policy", "noeviction"]);
    assert_empty(&evicts);
    let unavailable = format!("redis://127.0.0.1:{}", free_port());
    place.assert_problem(
        &store(&unavailable, ""),
        &["failed to open Redis at 127.0.0.1", "refused"],
    );

    let redis = Redis::start();
    let settings = store(&redis.url(), "buckets = 16");
    create_store(&place, &settings).await;
    let before = dump(&redis);
    let other = store(&redis.url(), "buckets = 8");
    place.assert_problem(&other, &["store.buckets is 8", "the store has 16"]);

    // Sets a deadline long in the past, as if no server had promoted the jobs.
    let bucket = before.iter().find(|(key, _)| key.ends_with(":bucket")).expect("a bucket");
    let late = ask(redis.port(), &["ZADD", &bucket.0, "1", "delayed:t"]).expect("an answer");
    assert_eq!(late, crate::support::resp::Reply::Number(0), "the set had no deadline before");
    place.assert_problem(&settings, &["due jobs are not promoted", "start a delay-queue server"]);
    drop(ask(redis.port(), &["ZADD", &bucket.0, "99999999999999", "delayed:t"]));
    place.assert_problem(
        &settings,
        &["1 sets are unknown to the timer, or have too late a deadline"],
    );
    assert!(place.run(&settings, &[], &["doctor", "--repair"]).status.success());
    place.assert_healthy(&settings, &[]);

    assert!(ask(redis.port(), &["DEL", "{dq:0fb}:incarnation", "{dq:15c}:incarnation"]).is_some());
    place.assert_problem(&settings, &["2 buckets have no incarnation", "emptied"]);
    assert_eq!(dump(&redis).len(), before.len() - 2, "the doctor has created an incarnation");
    place.assert_problem(
        &store(&redis.url(), "buckets = 16\naccept_data_loss = true"),
        &["no incarnation"],
    );

    let said = place.run(&settings, &[], &["doctor", "--accept-loss"]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.status.success() && text.contains("accepted    the loss of jobs in 16 buckets"),
        "{text}"
    );
    place.assert_healthy(&settings, &[]);
    let said = place.run(&settings, &[], &["doctor", "--accept-loss"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("in 0 buckets"), "{said:?}");

    let newer = "schema=7 hash=xxh3-64 buckets=16";
    drop(ask(redis.port(), &["SET", "dq:layout", newer]));
    place.assert_problem(&settings, &["schema = 7", "newer"]);
    drop(ask(redis.port(), &["SET", "dq:layout", "nonsense"]));
    place.assert_problem(&settings, &["failed to open the store"]);
    drop(ask(redis.port(), &["DEL", "dq:layout"]));
    drop(ask(redis.port(), &["LPUSH", "dq:layout", "a"]));
    place.assert_problem(&settings, &["WRONGTYPE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_the_condition_of_a_file_store() {
    let place = WorkDir::new();
    let settings = store("file:./data", "");
    place.assert_healthy(&settings, &["no store there yet"]);
    assert!(!place.path().join("data").exists(), "the doctor has created a store");
    create_store(&place, &settings).await;
    place.assert_healthy(&settings, &["buckets     1", "jobs        1 delayed", "on disk"]);
    place.assert_problem(&store("file:./data", "buckets = 2"), &["buckets = 1", "2"]);
    let mut server = place.server(&settings).await;
    place.assert_healthy(&settings, &["servers     1 is using"]);
    assert_eq!(
        server.get("/jobs/a").await.1["state"],
        "delayed",
        "the running server does not answer"
    );
    server.kill();
    place.assert_healthy(&settings, &["jobs        1 delayed"]);
    fs::write(place.path().join("data/jobs.db"), vec![7; 8192]).expect("written");
    place.assert_problem(&settings, &["jobs.db"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_and_repairs_misplaced_jobs() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 1");
    create_store(&place, &settings).await;
    let ask = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        ask(redis.port(), &words).expect("an answer")
    };
    let tag = ask("KEYS *:pool").texts()[0].trim_end_matches(":pool").to_owned();
    let all = |line: &str| ask(&line.replace("TAG", &tag));
    place.assert_healthy(&settings, &["to repair   nothing"]);

    // Damages one after another: jobs in no set, in two sets, without a record, or unknown to the
    // timer; and a topic without its name.
    for (damage, found) in [
        ("ZREM TAG:delayed:t a", "1 jobs are in no set"),
        ("ZADD TAG:dead:t 99999999999999 a", "1 jobs are in several sets"),
        ("ZADD TAG:ready:other 1 a", "1 jobs are in several sets"),
        ("ZADD TAG:ready:t 1 nothing", "1 ids have no record"),
        ("HSET TAG:attempts nothing x", "1 ids have no record"),
        ("ZREM TAG:bucket delayed:t", "1 sets are unknown to the timer"),
        ("ZADD TAG:bucket 99999999999999 delayed:t", "1 sets are unknown to the timer"),
        ("ZREM TAG:topics t", "1 topics are missing from the list"),
    ] {
        drop(all(damage));
        place.assert_problem(&settings, &[found, "doctor --repair"]);
        let output = place.run(&settings, &[], &["doctor", "--repair"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("repaired    1 "), "{damage}: {said}");
        place.assert_healthy(&settings, &["to repair   nothing"]);
        // Makes the job delayed again for the next damage.
        drop(all("ZREM TAG:ready:t a"));
        drop(all("ZREM TAG:dead:t a"));
        drop(all("ZADD TAG:delayed:t 4000000000000 a"));
        drop(all("ZADD TAG:bucket 4000000000000 delayed:t"));
    }
    place.assert_healthy(&settings, &["1 delayed, 0 ready, 0 reserved, 0 dead"]);

    drop(all("RENAME TAG:pool elsewhere"));
    place.assert_problem(&settings, &["no pool", "nothing is repaired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_and_buries_jobs_without_their_long_body() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 1");
    let mut server = place.server(&settings).await;
    let body = "x".repeat(5_000);
    for (id, delay) in [("held", "0s"), ("tried", "0s"), ("ready", "0s"), ("later", "1h")] {
        let put = json!({"topic": "t", "id": id, "body": body, "delay": delay});
        assert_eq!(server.post("/jobs", put).await.expect("an answer").0, 201);
    }
    let (_, popped) = server.get("/topics/t/pop?count=2&ttr=1h").await;
    assert_eq!(
        (&popped["jobs"][0]["id"], &popped["jobs"][1]["id"]),
        (&"held".into(), &"tried".into())
    );
    assert_eq!(server.post("/jobs/tried/release", json!({})).await.expect("an answer").0, 200);
    server.post("/jobs", json!({"topic": "t", "id": "small"})).await.expect("an answer");
    let bodies = ask(redis.port(), &["KEYS", "*:bodies"]).expect("an answer").texts();
    drop(ask(redis.port(), &["DEL", &bodies[0]]));
    assert_eq!(
        server.get("/topics/t/pop").await.0,
        503,
        "the pop did not fail, although the bodies may be on another node"
    );

    place.assert_problem(&settings, &["4 long bodies are missing", "doctor --repair"]);
    let output = place.run(&settings, &[], &["doctor", "--repair"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("repaired    4 long bodies"), "{said}");
    place.assert_healthy(
        &settings,
        &["to repair   nothing", "0 delayed, 1 ready, 1 reserved, 3 dead"],
    );

    let ids = |answer: serde_json::Value, part: &str| -> Vec<String> {
        let all = answer[part].as_array().expect("a list").clone();
        all.iter().map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(server.get("/topics/t/pop?count=9").await.1, "jobs"), ["small"]);
    let dead = server.get("/topics/t/jobs?state=dead").await.1;
    assert_eq!(dead["damaged"][0]["reason"], "pool record whose body is missing", "{dead}");
    let mut damaged = ids(dead, "damaged");
    damaged.sort();
    assert_eq!(damaged, ["later", "ready", "tried"]);
    // The consumer with the reserved job may finish it. The other jobs stay dead whatever a client
    // does.
    let held = json!({"reservation": popped["jobs"][0]["reservation"]});
    assert_eq!(server.post("/jobs/held/finish", held).await.expect("an answer").0, 204);
    assert_eq!(server.post("/jobs/ready/kick", json!({})).await.expect("an answer").0, 200);
    assert_eq!(ids(server.get("/topics/t/pop?count=9").await.1, "jobs"), [""; 0]);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    place.assert_healthy(
        &settings,
        &["to repair   nothing", "0 delayed, 0 ready, 1 reserved, 3 dead"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_repairs_keys_of_a_wrong_type_and_bad_scores() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 1");
    create_store(&place, &settings).await;
    let ask = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        ask(redis.port(), &words).expect("an answer")
    };
    let tag = ask("KEYS *:pool").texts()[0].trim_end_matches(":pool").to_owned();
    let all = |line: &str| ask(&line.replace("TAG", &tag));
    let repair = || {
        let output = place.run(&settings, &[], &["doctor", "--repair"]);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The doctor recreates keys that can be derived from others. The job must be unchanged.
    for key in ["bucket", "ends", "topics"] {
        drop(all(&format!("DEL TAG:{key}")));
        drop(all(&format!("SET TAG:{key} x")));
        let named = format!("{tag}:{key} is a string and must be a sorted set");
        place.assert_problem(&settings, &[&named, "doctor --repair deletes it"]);
        let (is_well, said) = repair();
        assert!(is_well && said.contains(&format!("repaired    {named}")), "{said}");
        place.assert_healthy(&settings, &["1 delayed, 0 ready, 0 reserved, 0 dead"]);
    }
    for (damage, found) in [
        ("ZADD TAG:bucket -inf delayed:t", "1 sets have a score that is not a time"),
        ("ZADD TAG:bucket +inf delayed:t", "1 sets are unknown to the timer"),
    ] {
        drop(all(damage));
        place.assert_problem(&settings, &[found]);
        assert!(repair().0, "{damage}");
        place.assert_healthy(&settings, &["1 delayed, 0 ready, 0 reserved, 0 dead"]);
    }
    // The doctor must not delete a key that has jobs or may still be needed.
    for (key, kind) in [
        ("pool", "hash"),
        ("attempts", "hash"),
        ("bodies", "hash"),
        ("incarnation", "string"),
        ("ready:t", "sorted set"),
    ] {
        drop(all(&format!("RENAME TAG:{key} saved")));
        drop(all(&format!("RPUSH TAG:{key} x")));
        let named = format!("{tag}:{key} is a list and must be a {kind}");
        place.assert_problem(&settings, &[&named]);
        let (is_well, said) = repair();
        assert!(!is_well && said.contains(&named), "{said}");
        assert_eq!(
            all(&format!("LLEN TAG:{key}")),
            crate::support::resp::Reply::Number(1),
            "{key}"
        );
        drop(all(&format!("DEL TAG:{key}")));
        drop(all(&format!("RENAME saved TAG:{key}")));
        place.assert_healthy(&settings, &["1 delayed, 0 ready, 0 reserved, 0 dead"]);
    }
    drop(all("ZADD TAG:delayed:t 1e300 a"));
    place.assert_problem(&settings, &["1 sets have a score that is not a time"]);
    assert!(repair().0);
    let score: f64 = all("ZSCORE TAG:delayed:t a").text().parse().expect("a number");
    assert!(score > 1e12 && score < 1e13, "the repaired score is not the current time: {score}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_resume_an_emptied_store_once_accepted() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 16");
    let server = place.server(&settings).await;
    let readyz = async |code: &str| {
        let began = Instant::now();
        loop {
            let (_, said) = server.get("/readyz").await;
            if said["code"] == code || said["status"] == code {
                return;
            }
            assert!(began.elapsed() < patience(), "readyz does not answer with {code}: {said}");
            tokio::time::sleep(Duration::from_millis(20)).await; // servers check at intervals
        }
    };
    drop(ask(redis.port(), &["FLUSHALL"]));
    readyz("store_replaced").await;
    place.assert_problem(&settings, &["16 buckets have no incarnation", "doctor --accept-loss"]);
    let said = place.run(&settings, &[], &["doctor", "--accept-loss"]);
    assert!(said.status.success(), "{said:?}");
    readyz("ok").await;
    let put = server.post("/jobs", json!({"topic": "t"})).await.expect("an answer");
    assert_eq!(put.0, 201, "{put:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_layout_is_rewritten_with_the_set_number_of_buckets() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let with = |buckets: &str| store(&redis.url(), buckets);
    create_store(&place, &with("buckets = 5")).await;
    let keys = ask(redis.port(), &["KEYS", "*:incarnation"]).expect("an answer").texts();
    let pools = ask(redis.port(), &["KEYS", "*:pool"]).expect("an answer").texts();
    let tag = pools[0].trim_end_matches("pool"); // the bucket with the job is not damaged
    let lost = keys.iter().find(|key| !key.starts_with(tag)).expect("another bucket");
    drop(ask(redis.port(), &["DEL", "dq:layout", lost]));
    let accept = |settings: &str, words: &[&str]| {
        let said = place.run(settings, &[], &["doctor", "--accept-loss"]);
        one_line(&said, words)
    };
    for settings in ["", "buckets = 5"] {
        place.refused(&with(settings), &["layout", "store.buckets", "--accept-loss"]);
        place.assert_problem(&with(settings), &["layout", "store.buckets", "--accept-loss"]);
    }
    accept(&with(""), &["layout", "store.buckets"]);
    accept(&with("buckets = 8"), &["layout", "store.buckets is 8", "number it had"]);
    let said = place.run(&with("buckets = 5"), &[], &["doctor", "--accept-loss"]);
    assert!(said.status.success(), "{said:?}");
    let layout = redis.command("GET dq:layout").expect("an answer");
    assert!(layout.contains("buckets=5"), "{layout}");
    let server = place.server(&with("")).await;
    assert_eq!(server.get("/jobs/a").await.1["state"], "delayed", "the remaining job is not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_and_repairs_entries_of_schedules() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "");
    let mut server = place.server(&settings).await;
    for name in ["late", "lost", "nameless", "sound"] {
        let yearly = json!({"topic": "t", "cron": "@yearly"});
        assert_eq!(server.put(&format!("/schedules/{name}"), yearly).await, Some(201));
    }
    let paused = server.put("/schedules/paused", json!({"topic": "t", "every": "1d"})).await;
    assert_eq!(paused, Some(201));
    assert!(server.post("/schedules/paused/pause", json!({})).await.is_some());
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    place.assert_healthy(&settings, &["schedules   5"]);

    let ask = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        ask(redis.port(), &words).expect("an answer")
    };
    let before = dump(&redis);
    ask("ZADD {dq:schedules}:times 90000000000000 late");
    ask("ZREM {dq:schedules}:times lost");
    ask("ZREM {dq:schedules}:names nameless");
    ask("ZADD {dq:schedules}:names 0 gone");
    ask("ZADD {dq:schedules}:times 90000000000000 gone");
    let damaged = dump(&redis);
    for problem in [
        "1 schedules are missing from the list of names: run doctor --repair",
        "2 schedules are unknown to the timer, or have too late a time there",
        "2 names of schedules have no schedule",
    ] {
        place.assert_problem(&settings, &[problem]);
    }
    assert_eq!(dump(&redis), damaged, "the doctor has changed the store");
    assert!(place.run(&settings, &[], &["doctor", "--repair"]).status.success());
    assert_eq!(dump(&redis), before);
    place.assert_healthy(&settings, &["schedules   5"]);

    ask("HSET {dq:schedules}:all lost {}");
    let words = ["the schedule \"lost\" cannot be read (missing field `topic`", "set it again"];
    place.assert_problem(&settings, &words);
    redis.command(r#"HSET {dq:schedules}:all late "\xff""#);
    place.assert_problem(&settings, &words);
    let words = ["the schedule \"late\" cannot be read (invalid utf-8", "set it again"];
    place.assert_problem(&settings, &words);
    ask("DEL {dq:schedules}:names");
    ask("LPUSH {dq:schedules}:names x");
    place.assert_problem(&settings, &["{dq:schedules}:names must be a sorted set: rename it"]);
}
