//! `delay-queue doctor`: its output, its exit code, its repairs, and that it changes nothing
//! without being asked.

use crate::start::prelude::*;

/// Creates a store with one job, and stops its server.
async fn create_store(place: &WorkDir, settings: &str) {
    let mut server = place.server(settings).await;
    server.put_job(json!({"topic": "t", "id": "a", "delay": "1h"})).await;
    server.stop();
}

/// Returns all keys with their contents.
fn dump(redis: &Redis) -> BTreeMap<String, String> {
    let keys = ask(redis.port(), &["KEYS", "*"]).expect("an answer").texts();
    let dump = |key: &str| format!("{:?}", ask(redis.port(), &["DUMP", key]));
    keys.into_iter().map(|key| (key.clone(), dump(&key))).collect()
}

/// Sends a line of words to Redis.
fn ask_line(redis: &Redis, line: &str) -> Reply {
    ask(redis.port(), &line.split(' ').collect::<Vec<_>>()).expect("an answer")
}

/// Store with one bucket and one job.
struct Damaged {
    place: WorkDir,
    redis: Redis,
    settings: String,
    /// Hash tag of the bucket, for which commands write `TAG`.
    tag: String,
}

impl Damaged {
    async fn new() -> Self {
        let (place, redis) = (WorkDir::new(), Redis::start());
        let settings = store(&redis.url(), "buckets = 1");
        create_store(&place, &settings).await;
        let tag = ask_line(&redis, "KEYS *:pool").texts()[0].trim_end_matches(":pool").to_owned();
        Self { place, redis, settings, tag }
    }

    fn ask(&self, line: &str) -> Reply {
        ask_line(&self.redis, &line.replace("TAG", &self.tag))
    }

    #[track_caller]
    fn assert_problem(&self, words: &[&str]) {
        self.place.assert_problem(&self.settings, words);
    }

    #[track_caller]
    fn assert_repaired(&self, words: &str) {
        let said = self.place.repair(&self.settings);
        assert!(said.contains(words), "no {words:?} in {said}");
    }

    /// Asserts that the store is healthy and has the job as it was put.
    #[track_caller]
    fn assert_whole(&self) {
        self.place.assert_healthy(&self.settings, &["1 delayed, 0 ready, 0 reserved, 0 dead"]);
    }
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
    // Layout, key of reservations, incarnation; pool, bucket, topics and delayed. The note of a
    // walk may be there already.
    assert_eq!(before.keys().filter(|key| !key.ends_with(":walked")).count(), 3 + 4);
    let words = ["layout      schema=6", "jobs        1 delayed, 0 ready", "servers     0"];
    place.assert_healthy(&settings, &words);
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
            let count = buckets.split_once(" buckets (").map(|(count, _)| count.parse::<usize>());
            sum += count.expect("a number of buckets").expect("a number");
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
    let unavailable = format!("redis://127.0.0.1:{}", free_port());
    let words = ["failed to open Redis at 127.0.0.1", "refused"];
    place.assert_problem(&store(&unavailable, ""), &words);

    let redis = Redis::start();
    let settings = store(&redis.url(), "buckets = 16");
    create_store(&place, &settings).await;
    let before = dump(&redis);
    let other = store(&redis.url(), "buckets = 8");
    place.assert_problem(&other, &["store.buckets is 8", "the store has 16"]);

    // Sets a deadline long in the past, as if no server had promoted the jobs.
    let bucket = before.keys().find(|key| key.ends_with(":bucket")).expect("a bucket");
    let late = ask_line(&redis, &format!("ZADD {bucket} 1 delayed:t"));
    assert_eq!(late, Reply::Number(0), "the set had no deadline before");
    place.assert_problem(&settings, &["due jobs are not promoted", "start a delay-queue server"]);
    ask_line(&redis, &format!("ZADD {bucket} 99999999999999 delayed:t"));
    let words = ["1 sets are unknown to the timer, or have too late a deadline"];
    place.assert_problem(&settings, &words);
    place.repair(&settings);
    place.assert_healthy(&settings, &[]);

    ask_line(&redis, "DEL {dq:0fb}:incarnation {dq:15c}:incarnation");
    place.assert_problem(&settings, &["2 buckets have no incarnation", "emptied"]);
    assert_eq!(dump(&redis).len(), before.len() - 2, "the doctor has created an incarnation");
    let accepting = store(&redis.url(), "buckets = 16\naccept_data_loss = true");
    place.assert_problem(&accepting, &["no incarnation"]);
    for words in ["accepted    the loss of jobs in 16 buckets", "in 0 buckets"] {
        let accepted = place.run(&settings, &[], &["doctor", "--accept-loss"]);
        let said = text(&accepted.stdout);
        assert!(accepted.status.success() && said.contains(words), "{accepted:?}");
        place.assert_healthy(&settings, &[]);
    }

    ask_line(&redis, "SET dq:layout nonsense");
    place.assert_problem(&settings, &["failed to open the store"]);
    ask_line(&redis, "DEL dq:layout");
    ask_line(&redis, "LPUSH dq:layout a");
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
    let job = server.get("/jobs/a").await.1;
    assert_eq!(job["state"], "delayed", "the running server does not answer");
    server.kill();
    place.assert_healthy(&settings, &["jobs        1 delayed"]);
    fs::write(place.path().join("data/jobs.db"), vec![7; 8192]).expect("written");
    place.assert_problem(&settings, &["jobs.db"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_and_repairs_misplaced_jobs() {
    let store = Damaged::new().await;
    store.assert_whole();

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
        store.ask(damage);
        store.assert_problem(&[found, "doctor --repair"]);
        store.assert_repaired("repaired    1 ");
        store.place.assert_healthy(&store.settings, &[]);
        // Makes the job delayed again for the next damage.
        store.ask("ZREM TAG:ready:t a");
        store.ask("ZREM TAG:dead:t a");
        store.ask("ZADD TAG:delayed:t 4000000000000 a");
        store.ask("ZADD TAG:bucket 4000000000000 delayed:t");
    }
    store.assert_whole();

    store.ask("RENAME TAG:pool elsewhere");
    store.assert_problem(&["no pool", "nothing is repaired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_and_buries_jobs_without_their_long_body() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 1");
    let mut server = place.server(&settings).await;
    let body = "x".repeat(5_000);
    for (id, delay) in [("held", "0s"), ("tried", "0s"), ("ready", "0s"), ("later", "1h")] {
        server.put_job(json!({"topic": "t", "id": id, "body": body, "delay": delay})).await;
    }
    let ids = |answer: &Value, part: &str| -> BTreeSet<String> {
        let all = answer[part].as_array().expect("a list").iter();
        all.map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
    };
    let set = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let (_, popped) = server.get("/topics/t/pop?count=2&ttr=1h").await;
    assert_eq!(ids(&popped, "jobs"), set(&["held", "tried"]));
    server.post_ok("/jobs/tried/release", json!({})).await;
    server.put_job(json!({"topic": "t", "id": "small"})).await;
    let bodies = ask_line(&redis, "KEYS *:bodies").texts();
    ask_line(&redis, &format!("DEL {}", bodies[0]));
    // The bodies may be on another node, so the pop must fail.
    assert_eq!(server.get("/topics/t/pop").await.0, 503);

    place.assert_problem(&settings, &["4 long bodies are missing", "doctor --repair"]);
    let said = place.repair(&settings);
    assert!(said.contains("repaired    4 long bodies"), "{said}");
    place.assert_healthy(&settings, &["0 delayed, 1 ready, 1 reserved, 3 dead"]);

    let rest = server.get("/topics/t/pop?count=9").await.1;
    assert_eq!(ids(&rest, "jobs"), set(&["small"]));
    let dead = server.get("/topics/t/jobs?state=dead").await.1;
    assert_eq!(dead["damaged"][0]["reason"], "pool record whose body is missing", "{dead}");
    assert_eq!(ids(&dead, "damaged"), set(&["later", "ready", "tried"]));
    // The consumer with the reserved job may finish it. The other jobs stay dead whatever a client
    // does.
    let held = json!({"reservation": popped["jobs"][0]["reservation"]});
    server.post_ok("/jobs/held/finish", held).await;
    server.post_ok("/jobs/ready/kick", json!({})).await;
    let rest = server.get("/topics/t/pop?count=9").await.1;
    assert_eq!(ids(&rest, "jobs"), set(&[]));
    server.stop();
    place.assert_healthy(&settings, &["0 delayed, 0 ready, 1 reserved, 3 dead"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_repairs_keys_of_a_wrong_type_and_bad_scores() {
    let store = Damaged::new().await;
    let tag = &store.tag;
    // The doctor recreates keys that can be derived from others. The job must be unchanged.
    for key in ["bucket", "ends", "topics"] {
        store.ask(&format!("SET TAG:{key} x"));
        let named = format!("{tag}:{key} is a string and must be a sorted set");
        store.assert_problem(&[&named, "doctor --repair deletes it"]);
        store.assert_repaired(&format!("repaired    {named}"));
        store.assert_whole();
    }
    for (damage, found) in [
        ("ZADD TAG:bucket -inf delayed:t", "1 sets have a score that is not a time"),
        ("ZADD TAG:bucket +inf delayed:t", "1 sets are unknown to the timer"),
    ] {
        store.ask(damage);
        store.assert_problem(&[found]);
        store.assert_repaired("");
        store.assert_whole();
    }
    // The doctor must not delete a key that has jobs or may still be needed.
    for (key, kind) in [
        ("pool", "hash"),
        ("attempts", "hash"),
        ("bodies", "hash"),
        ("incarnation", "string"),
        ("ready:t", "sorted set"),
    ] {
        store.ask(&format!("RENAME TAG:{key} saved"));
        store.ask(&format!("RPUSH TAG:{key} x"));
        let named = format!("{tag}:{key} is a list and must be a {kind}");
        store.assert_problem(&[&named]);
        let refused = store.place.run(&store.settings, &[], &["doctor", "--repair"]);
        assert!(!refused.status.success() && text(&refused.stdout).contains(&named), "{refused:?}");
        assert_eq!(store.ask(&format!("LLEN TAG:{key}")), Reply::Number(1), "{key}");
        store.ask(&format!("DEL TAG:{key}"));
        store.ask(&format!("RENAME saved TAG:{key}"));
        store.assert_whole();
    }
    store.ask("ZADD TAG:delayed:t 1e300 a");
    store.assert_problem(&["1 sets have a score that is not a time"]);
    store.assert_repaired("");
    let score: f64 = store.ask("ZSCORE TAG:delayed:t a").text().parse().expect("a number");
    assert!(score > 1e12 && score < 1e13, "the repaired score is not the current time: {score}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_resume_an_emptied_store_once_accepted() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "buckets = 16");
    let server = place.server(&settings).await;
    let answers = async |code: &str| {
        let said = server.get("/readyz").await.1;
        said["code"] == code || said["status"] == code
    };
    ask_line(&redis, "FLUSHALL");
    eventually!(answers("store_replaced").await, "the server does not notice the loss");
    place.assert_problem(&settings, &["16 buckets have no incarnation", "doctor --accept-loss"]);
    let said = place.run(&settings, &[], &["doctor", "--accept-loss"]);
    assert!(said.status.success(), "{said:?}");
    eventually!(answers("ok").await, "the server does not become ready");
    server.put_job(json!({"topic": "t"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_layout_is_rewritten_with_the_set_number_of_buckets() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let with = |buckets: &str| store(&redis.url(), buckets);
    create_store(&place, &with("buckets = 5")).await;
    let keys = ask_line(&redis, "KEYS *:incarnation").texts();
    let pools = ask_line(&redis, "KEYS *:pool").texts();
    let tag = pools[0].trim_end_matches("pool"); // the bucket with the job is not damaged
    let lost = keys.iter().find(|key| !key.starts_with(tag)).expect("another bucket");
    ask_line(&redis, &format!("DEL dq:layout {lost}"));
    let accept = |settings: &str| place.run(settings, &[], &["doctor", "--accept-loss"]);
    for settings in ["", "buckets = 5"] {
        place.assert_unfit(&with(settings), &["layout", "store.buckets", "--accept-loss"]);
    }
    one_line(&accept(&with("")), &["layout", "store.buckets"]);
    let other = accept(&with("buckets = 8"));
    one_line(&other, &["layout", "store.buckets is 8", "number it had"]);
    let said = accept(&with("buckets = 5"));
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
    server.post_ok("/schedules/paused/pause", json!({})).await;
    server.stop();
    place.assert_healthy(&settings, &["schedules   5"]);

    let ask = |line: &str| ask_line(&redis, line);
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
    place.repair(&settings);
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
