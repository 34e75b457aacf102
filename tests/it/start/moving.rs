//! `delay-queue export` and `import`: they move everything, and write nothing if they fail.

use crate::start::prelude::*;

/// Temporary folder of a test with settings files, stores and exports.
struct WorkDir(tempfile::TempDir);

impl WorkDir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn buckets(&self, count: u16) -> String {
        let file = self.file(&format!("{count}.toml"));
        fs::write(&file, format!("[store]\nbuckets = {count}\n")).expect("written");
        file.display().to_string()
    }

    /// Runs a command to its end. Returns whether it succeeded, and its whole output.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = output(self.path(), arguments);
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8(s).expect("text"));
        assert!(!said[1].contains("panicked"), "{}", said[1]);
        (output.status.success(), said.concat())
    }

    #[track_caller]
    fn assert_succeeds(&self, arguments: &[&str], words: &[&str]) {
        let (succeeded, said) = self.run(arguments);
        assert!(succeeded && words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }

    /// Asserts that a command fails with one line that contains all of `words`.
    #[track_caller]
    fn assert_refused(&self, arguments: &[&str], words: &[&str]) {
        let (succeeded, said) = self.run(arguments);
        let line = said.lines().last().unwrap_or_default();
        let clear = line.starts_with("delay-queue: failed to ") && said.lines().count() == 1;
        assert!(!succeeded && clear, "{arguments:?}: {said}");
        assert!(words.iter().all(|word| line.contains(word)), "{arguments:?}: {line}");
    }

    /// Puts jobs into the store and brings them into every state in every way. Returns the answers
    /// about them.
    async fn fill(&self, arguments: &[&str]) -> Vec<(String, String)> {
        let server = Process::start(self.path(), arguments).await;
        let client = crate::support::http::client();
        for fields in [
            r#""id": "late", "topic": "t", "delay": "1h", "backoff": {"initial": 1, "max": "1h"}"#,
            r#""id": "now", "topic": "t", "max_attempts": 0, "ttr": "90s""#,
            r#""id": "again", "topic": "t", "backoff": ["2m", "10m"]"#,
            r#""id": "held", "topic": "held""#,
            r#""id": "dead", "topic": "dead""#,
        ] {
            let put = client.post(format!("{}/jobs", server.base));
            let put = put.body(format!("{{{fields}, \"body\": {BODY}}}")).send().await;
            assert!(put.expect("an answer").status().is_success(), "{fields}");
        }
        server.get("/topics/held/pop?ttr=1h").await;
        server.get("/topics/dead/pop").await;
        server.post("/jobs/dead/bury", json!({"error": "no\nhope"})).await.expect("an answer");
        server.get("/topics/t/pop").await;
        server.get("/topics/t/pop").await;
        server.post("/jobs/again/release", json!({"error": "busy"})).await.expect("an answer");
        server.post("/jobs/now/release", json!({})).await.expect("an answer");
        for request in [
            client.post(format!("{}/topics/t/pause", server.base)),
            client.post(format!("{}/topics/held/pause", server.base)).body(r#"{"for": "1h"}"#),
            client
                .put(format!("{}/topics/dead", server.base))
                .body(r#"{"ttr": 7, "backoff": [1]}"#),
        ] {
            assert!(request.send().await.expect("an answer").status().is_success());
        }
        let jobs: Vec<Value> =
            (0..300).map(|n| json!({"topic": "many", "id": format!("m{n}")})).collect();
        server.post("/batch/jobs", json!({"jobs": jobs})).await.expect("an answer");
        shown_contents(&server).await
    }

    /// Returns the answers about the jobs of a store.
    async fn shown_contents(&self, arguments: &[&str]) -> Vec<(String, String)> {
        shown_contents(&Process::start(self.path(), arguments).await).await
    }
}

const BODY: &str = "{ \"a\" :\n\t[1e2, 0.10, \"\\u00e4 ä\"]  }";

/// Returns a server's answers about jobs, counts and settings, byte for byte.
async fn shown_contents(server: &Process) -> Vec<(String, String)> {
    let names =
        ["late", "now", "again", "held", "dead", "m0", "m299"].map(|n| format!("/jobs/{n}"));
    let topics = ["/topics", "/topics/dead/jobs?state=dead"].map(ToOwned::to_owned);
    let mut all = Vec::new();
    for path in names.into_iter().chain(topics) {
        let answer =
            crate::support::http::get(format!("{}{path}", server.base)).await.expect("an answer");
        assert!(answer.status().is_success(), "{path}");
        let text = answer.text().await.expect("text");
        // Leaves out the age of the oldest ready job, which grows.
        let parts = text.split("\"oldest_ready_age\":").enumerate().map(|(index, part)| {
            let age = if index > 0 { part.find([',', '}']).unwrap_or(0) } else { 0 };
            &part[age..]
        });
        all.push((path, parts.collect()));
    }
    let defaults = server.get("/topics/dead").await.1["defaults"].to_string();
    all.push(("defaults".to_owned(), defaults));
    all
}

/// Returns the job lines of an export, in an order that does not depend on the number of buckets.
fn jobs_of(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("an export");
    let mut jobs: Vec<String> =
        text.lines().filter(|line| line.starts_with("{\"job\"")).map(ToOwned::to_owned).collect();
    jobs.sort();
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_of_the_old_store_is_valid_in_the_new_one() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let server = Process::start(place.path(), &[]).await;
    server.post("/batch/jobs", json!({"jobs": [{"topic": "t"}, {"topic": "t"}]})).await;
    let popped = server.get("/topics/t/pop?count=2&ttr=1h").await.1;
    drop(server);
    place.assert_succeeds(&["export", "one.ndjson"], &["exported 2 jobs"]);
    place.assert_succeeds(&["--store", &url, "import", "one.ndjson"], &["imported 2 jobs"]);
    let server = Process::start(place.path(), &["--store", &url]).await;
    for job in popped["jobs"].as_array().expect("jobs") {
        let path = format!("/jobs/{}/finish", job["id"].as_str().expect("an id"));
        let wrong = json!({"reservation": "0".repeat(32)});
        assert_eq!(server.post(&path, wrong).await.map(|(status, _)| status), Some(409));
        let held = json!({"reservation": job["reservation"]});
        assert_eq!(server.post(&path, held).await.map(|(status, _)| status), Some(204));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_between_files_and_redis() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let before = place.fill(&[]).await;
    assert!(before[0].1.contains(&format!("\"body\":{BODY}")), "{}", before[0].1);

    place.assert_succeeds(
        &["export", "one.ndjson"],
        &["exported 305 jobs", "the settings of 3 topics"],
    );
    place.assert_succeeds(
        &["--store", &url, "import", "one.ndjson"],
        &[
            "imported 305 jobs; 0 of 305 existed already; applied the settings of 3 topics",
            "as many jobs",
        ],
    );
    place.assert_succeeds(&["--store", &url, "export", "two.ndjson"], &["exported 305 jobs"]);
    let three = place.buckets(3);
    let other = ["--store", "file:./other", "--config", &three];
    place.assert_succeeds(
        &[&other[..], &["import", "two.ndjson"]].concat(),
        &["imported 305 jobs", "as many"],
    );
    place.assert_succeeds(
        &[&other[..], &["export", "three.ndjson"]].concat(),
        &["exported 305 jobs"],
    );
    assert!(
        fs::read_to_string(place.file("three.ndjson")).is_ok_and(|t| t.contains("\"buckets\":3"))
    );
    for other in ["two.ndjson", "three.ndjson"] {
        assert_eq!(jobs_of(&place.file(other)), jobs_of(&place.file("one.ndjson")), "{other}");
    }
    assert_eq!(place.shown_contents(&other).await, before);
    assert_eq!(place.shown_contents(&["--store", &url]).await, before);

    // The import counts existing jobs and does not change them.
    place.assert_succeeds(
        &["--store", &url, "import", "one.ndjson"],
        &["imported 0 jobs; 305 of 305 existed already", "as many jobs"],
    );
    let server = Process::start(place.path(), &["--store", &url]).await;
    server.post("/jobs", json!({"topic": "new", "id": "another"})).await.expect("an answer");
    drop(server);
    place.assert_succeeds(
        &["--store", &url, "import", "one.ndjson"],
        &["305 of 305 existed already", "1 other jobs as before"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_resumes_no_topic_and_removes_no_defaults() {
    let place = WorkDir::new();
    place.fill(&[]).await;
    place.assert_succeeds(&["export", "a.ndjson"], &["the settings of 3 topics"]);
    let other = ["--store", "file:./other"];
    let server = Process::start(place.path(), &other).await;
    let client = crate::support::http::client();
    for request in [
        client.post(format!("{}/topics/dead/pause", server.base)),
        client.post(format!("{}/topics/held/pause", server.base)),
        client.put(format!("{}/topics/t", server.base)).body(r#"{"ttr": 9}"#),
        client.put(format!("{}/topics/dead", server.base)).body(r#"{"ttr": 9}"#),
    ] {
        assert!(request.send().await.expect("an answer").status().is_success());
    }
    drop(server);
    // Imports twice: the second import finds the settings that the first one has made.
    for _ in 0..2 {
        place.assert_succeeds(
            &[&other[..], &["import", "a.ndjson"]].concat(),
            &["applied the settings of 3 topics"],
        );
        let server = Process::start(place.path(), &other).await;
        let topic = async |name: &str| server.get(&format!("/topics/{name}")).await.1;
        let (t, held, dead) = (topic("t").await, topic("held").await, topic("dead").await);
        assert_eq!((&t["paused"], &t["defaults"]["ttr"]), (&json!(true), &json!(9)), "{t}");
        assert_eq!(
            (&held["paused"], &held["paused_until"]),
            (&json!(true), &Value::Null),
            "{held}"
        );
        assert_eq!(
            (&dead["paused"], &dead["defaults"]["ttr"]),
            (&json!(true), &json!(7)),
            "{dead}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_moves_without_its_secrets_and_waits_for_a_resume() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let to_redis = ["--store", url.as_str()];
    let server = Process::start(place.path(), &[]).await;
    let push = json!({
        "url": "https://hook.invalid/", "rate": "5/s", "secrets": [format!("whsec_{}", "AQID".repeat(8))],
        "headers": {"authorization": "Bearer key", "a": "1"}, "batch": {"max": 2},
    });
    assert_eq!(server.put("/topics/t/push", push.clone()).await, Some(201));
    drop(server);
    place.assert_succeeds(&["export", "a.ndjson"], &["the settings of 1 topics"]);
    let file = fs::read_to_string(place.file("a.ndjson")).expect("an export");
    assert!(!file.contains("AQID") && !file.contains("Bearer"), "{file}");
    let import = [&to_redis[..], &["import", "a.ndjson"]].concat();
    place.assert_succeeds(&import, &["applied the settings of 1 topics"]);
    let server = Process::start(place.path(), &to_redis).await;
    let (_, shown) = server.get("/topics/t/push").await;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("paused"), &json!("imported")));
    assert_eq!((&shown["rate"], &shown["secret_count"]), (&json!("5/s"), &json!(0)), "{shown}");
    assert_eq!((&shown["headers"], &shown["batch"]["max"]), (&json!({"a": "1"}), &json!(2)));
    // Only a resume ends the pause. A second import does not bring it back, and keeps the secrets.
    assert_eq!(server.put("/topics/t/push", push).await, Some(200));
    assert_eq!(server.get("/topics/t/push").await.1["reason"], "imported");
    let resumed = server.post("/topics/t/push/resume", json!({})).await.expect("an answer").1;
    assert_eq!((&resumed["state"], &resumed["secret_count"]), (&json!("running"), &json!(1)));
    drop(server);
    place.assert_succeeds(&import, &["applied the settings of 1 topics"]);
    let server = Process::start(place.path(), &to_redis).await;
    assert_eq!(server.get("/topics/t/push").await.1, resumed);
}

/// Returns a schedule as a server shows it.
async fn shown_schedule(server: &Process, name: &str) -> Value {
    let (status, shown) = server.get(&format!("/schedules/{name}")).await;
    assert_eq!(status, 200, "{shown}");
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_move_with_their_state_and_replace_none() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let to_redis = ["--store", url.as_str()];
    let server = Process::start(place.path(), &[]).await;
    let yearly = json!({
        "topic": "t", "cron": "0 9 1 1 *", "timezone": "Europe/Berlin", "jitter": "500w", "overlap": "skip",
        "missed": "all", "body": {"a": [1]}, "ttr": 7, "headers": {"x-a": "b"},
    });
    assert_eq!(server.put("/schedules/yearly", yearly).await, Some(201));
    assert_eq!(server.post("/schedules/yearly/run", json!({})).await.map(|(s, _)| s), Some(201));
    let paused = json!({"topic": "t", "every": "1d"});
    assert_eq!(server.put("/schedules/paused", paused).await, Some(201));
    assert!(server.post("/schedules/paused/pause", json!({})).await.is_some());
    let before = shown_schedule(&server, "yearly").await;
    assert_eq!(before["last"]["state"], "delayed", "{before}");
    drop(server);
    place.assert_succeeds(&["export", "a.ndjson"], &["exported 1 jobs", "and 2 schedules to"]);

    let import = [&to_redis[..], &["import", "a.ndjson"]].concat();
    place.assert_succeeds(&import, &["; imported 2 schedules; 0 of 2 existed already"]);
    let server = Process::start(place.path(), &to_redis).await;
    assert_eq!(shown_schedule(&server, "yearly").await, before);
    assert_eq!(shown_schedule(&server, "paused").await["paused"], true);
    let changed = json!({"topic": "t", "every": "2d"});
    assert_eq!(server.put("/schedules/paused", changed).await, Some(200));
    let existing = shown_schedule(&server, "paused").await;
    assert_eq!(server.delete("/schedules/yearly").await, Some(204));
    drop(server);
    place.assert_succeeds(&import, &["; imported 1 schedules; 1 of 2 existed already"]);
    let server = Process::start(place.path(), &to_redis).await;
    assert_eq!(shown_schedule(&server, "paused").await, existing);
    assert_eq!(shown_schedule(&server, "yearly").await, before);
    drop(server);
    place.assert_succeeds(
        &[&to_redis[..], &["export", "b.ndjson"]].concat(),
        &["exported 1 jobs", "and 2 schedules to"],
    );
}

/// The last instant before a move that no server has put is put after it, and no other again.
#[tokio::test(flavor = "multi_thread")]
async fn an_imported_schedule_continues_with_its_next_instant() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let server = Process::start(place.path(), &[]).await;
    let every = json!({"topic": "t", "every": "1s", "missed": "all", "body": "tick"});
    assert_eq!(server.put("/schedules/tick", every).await, Some(201));
    let mut popped = instants(&server, 2).await;
    drop(server);
    place.assert_succeeds(&["export", "a.ndjson"], &["and 1 schedules to"]);
    place.assert_succeeds(&["--store", &url, "import", "a.ndjson"], &["imported 1 schedules"]);
    let server = Process::start(place.path(), &["--store", &url]).await;
    popped.extend(instants(&server, 2).await);
    let seconds: Vec<u64> = (0..popped.len() as u64).map(|n| popped[0] + n * 1000).collect();
    assert_eq!(popped, seconds, "an instant is missing or there twice");
}

/// Pops and deletes jobs until `count` are there; returns the instants in their ids.
async fn instants(server: &Process, count: usize) -> Vec<u64> {
    let mut all = Vec::new();
    while all.len() < count {
        let (_, popped) = server.get("/topics/t/pop?wait=20s").await;
        for job in popped["jobs"].as_array().expect("jobs") {
            let id = job["id"].as_str().expect("an id");
            all.push(id.trim_start_matches("tick:").parse().expect("an instant"));
            assert!(server.delete(&format!("/jobs/{id}")).await.is_some());
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_through_a_pipe() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let before = place.fill(&[]).await;
    place.assert_succeeds(&["export", "a.ndjson"], &[]);
    let file = fs::read(place.file("a.ndjson")).expect("an export");

    let export = output(place.path(), &["export", "-"]);
    let said = String::from_utf8(export.stderr).expect("text");
    assert!(export.status.success(), "{said}");
    assert!(said.contains("exported 305 jobs") && said.contains("standard output"), "{said}");
    assert!(
        export.stdout == file,
        "the export to standard output differs from the export to a file"
    );
    assert!(!place.file("-").exists() && !place.file("-.part").exists());

    let url = redis.url();
    let import = |bytes: &[u8]| {
        fs::write(place.file("piped"), bytes).expect("written");
        let mut command = program(place.path(), &["--store", &url, "import", "-"]);
        let mut export =
            Command::new("cat").arg(place.file("piped")).stdout(Stdio::piped()).spawn();
        let export = export.as_mut().expect("cat runs");
        let output = command.stdin(export.stdout.take().expect("a pipe")).output();
        export.wait().expect("it ends");
        let output = output.expect("the program runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).expect("text"))
    };
    let (succeeded, said) = import(&file[..file.len() / 2]);
    let words =
        ["failed to import standard input: line ", "it is truncated", "nothing was written"];
    assert!(!succeeded && words.iter().all(|word| said.contains(word)), "{said}");
    assert_eq!(redis.command("KEYS *").as_deref(), Some("*0\r\n"), "nothing was written");
    let (succeeded, said) = import(&file);
    assert!(succeeded && said.contains("imported 305 jobs") && said.contains("as many"), "{said}");
    assert_eq!(place.shown_contents(&["--store", &url]).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_or_damaged_export_is_refused_completely() {
    let place = WorkDir::new();
    place.fill(&[]).await;
    place.assert_succeeds(&["export", "good.ndjson"], &[]);
    let good = fs::read_to_string(place.file("good.ndjson")).expect("an export");
    let last = good.lines().count();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    let cut = |n: usize| lines[..n].concat();
    let assert_refused = |text: String, words: &[&str]| {
        fs::write(place.file("bad.ndjson"), text).expect("written");
        let words = [words, &["bad.ndjson: line ", "nothing was written"]].concat();
        place.assert_refused(&["--store", "file:./bad", "import", "bad.ndjson"], &words);
        assert!(!place.file("bad").exists(), "the refused import has created a store");
    };
    assert_refused(cut(last - 1), &[&format!("line {last}"), "it is truncated"]);
    assert_refused(cut(100), &["line 101", "it is truncated"]);
    assert_refused(cut(100) + &lines[100][..50], &["line 101", "it is truncated"]);
    assert_refused(String::new(), &["line 1", "not an export of delay-queue"]);
    assert_refused("{\"jobs\": []}\n".to_owned(), &["line 1", "not an export of delay-queue"]);
    assert_refused(
        good.replacen("\"version\":1", "\"version\":2", 1),
        &["line 1", "version 2", "version 1"],
    );
    assert_refused(good.replacen("\"id\":\"m7\"", "\"id\":\"m8\"", 1), &["section", "damaged"]);
    assert_refused(
        good.replacen("\"jobs\":305,\"topics\"", "\"jobs\":304,\"topics\"", 1),
        &["the file", "damaged", "304", "305"],
    );
    assert_refused(
        good.replacen("\"paused\":true", "\"paused\":false", 1),
        &["the file", "damaged"],
    );
    assert_refused(lines[0].to_owned() + &lines[2..].concat(), &["section", "damaged"]);
    assert_refused(good.clone() + "\n", &["more data after the last line"]);
    assert_refused(
        good.replacen("\"state\":\"ready\"", "\"state\":\"raedy\"", 1),
        &["raedy", "column"],
    );
    place.assert_refused(&["import", "nowhere.ndjson"], &["nowhere.ndjson", "No such file"]);
    place.assert_refused(&["import", "."], &["cannot be read"]);
}

/// Returns an export of one bucket with these job lines and valid sums.
fn export_with_valid_sums(jobs: &[&str]) -> String {
    let head = r#"{"head":{"format":"delay-queue export","version":1,"store":"-","buckets":1}}"#;
    let (lines, count) = (jobs.concat(), jobs.len());
    let sum = |text: &str| format!("{:08x}", crc32fast::hash(text.as_bytes()));
    let section = format!(r#"{{"bucket":0,"jobs":{count},"crc32":"{}"}}"#, sum(&lines));
    let text = format!("{head}\n{lines}{{\"section\":{section}}}\n");
    let total = format!(r#"{{"jobs":{count},"topics":0,"crc32":"{}"}}"#, sum(&text));
    format!("{text}{{\"total\":{total}}}\n")
}

#[test]
fn impossible_jobs_in_an_export_are_refused_by_line() {
    let place = WorkDir::new();
    let line = |id: &str, more: &str| {
        let rest = r#""topic":"t","body":"1","created_at":1,"due_at":2,"max_attempts":1"#;
        let rest = format!(r#"{rest},"ttr_ms":1000,"dead_retention_ms":5"#);
        format!("{{\"job\":{{\"id\":\"{id}\",{rest},{more}}}}}\n")
    };
    let import = ["--store", "file:./bad", "import", "a.ndjson"];
    let good = line("a", r#""state":"ready""#);
    for (bad, words) in [
        (good.clone(), "line 3: its id is already in line 2"),
        (line("b", r#""state":"reserved""#), "line 3: its fields do not fit its state"),
        (line("b", r#""state":"ready","died_at":3"#), "line 3: its fields do not fit its state"),
        (line("b", r#""state":"gone""#), "line 3: unknown variant `gone`"),
        (line("b", r#""state":"ready","color":3"#), "line 3: unknown field `color`"),
        (line("b/c", r#""state":"ready""#), "line 3: must be 1 to 128 characters"),
        (good.replace("\"1\"", "\"[\"").replace("\"a\"", "\"b\""), "line 3: `body` is not JSON"),
        (
            good.replace("\"due_at\":2", "\"due_at\":100000000000000"),
            "line 3: `due_at` must be at most",
        ),
        (
            line(
                "b",
                r#""state":"reserved","attempt":1,"reserved_ttr_ms":1,"reserved_until":99999999999999"#,
            ),
            "line 3: `reserved_until` must be at most",
        ),
        (
            line("b", r#""state":"dead","attempt":1,"died_at":253402300799999"#),
            "`died_at` must be at most",
        ),
        (good.replace("\"ttr_ms\":1000", "\"ttr_ms\":0"), "line 3: `ttr_ms` must be at least 1"),
        (
            good.replace("\"dead_retention_ms\":5", "\"dead_retention_ms\":315576000001"),
            "line 3: `dead_retention_ms` must be at most",
        ),
    ] {
        fs::write(place.file("a.ndjson"), export_with_valid_sums(&[&good, &bad])).expect("written");
        place.assert_refused(&import, &[words, "nothing was written"]);
        assert!(!place.file("bad").exists());
    }
    fs::write(place.file("a.ndjson"), export_with_valid_sums(&[&good])).expect("written");
    place.assert_succeeds(&import, &["imported 1 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_overwrites_no_file_and_creates_no_store() {
    let place = WorkDir::new();
    place.assert_refused(&["export", "a.ndjson"], &["there is none in", "data"]);
    assert!(!place.file("data").exists() && !place.file("a.ndjson.part").exists());
    let server = Process::start(place.path(), &[]).await;
    place.assert_refused(&["export", "a.ndjson"], &["another delay-queue", "is using it"]);
    drop(server);
    fs::write(place.file("a.ndjson"), "mine").expect("written");
    place.assert_refused(&["export", "a.ndjson"], &["a.ndjson exists already", "--force"]);
    assert_eq!(fs::read_to_string(place.file("a.ndjson")).expect("a file"), "mine");
    place.assert_succeeds(&["export", "--force", "a.ndjson"], &["exported 0 jobs"]);
    place.assert_succeeds(&["--store", "file:./other", "import", "a.ndjson"], &["imported 0 jobs"]);

    fs::write(place.file("b.ndjson.part"), "mine").expect("written");
    place.assert_refused(&["export", "b.ndjson"], &["b.ndjson.part", "not an export", "--force"]);
    fs::copy(place.file("a.ndjson"), place.file("b.ndjson.part")).expect("copied");
    let other = ["--store", "file:./other", "export", "b.ndjson"];
    place.assert_refused(&other, &["b.ndjson.part", "it is an export of file:/", "--force"]);
    assert!(!place.file("b.ndjson").exists());
    place.assert_refused(&["export", "no/such/dir/c"], &["no/such/dir/c.part"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_export_is_resumed() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = redis.url();
    let store = ["--store", url.as_str()];
    place.fill(&store).await;
    let export = |file| [&store[..], &["export", file]].concat();
    place.assert_succeeds(&export("whole.ndjson"), &["exported 305 jobs"]);
    let whole = fs::read(place.file("whole.ndjson")).expect("an export");
    // The file ends in the head, in a section, between two sections, in the total, or at its real
    // end.
    for bytes in [0, 10, whole.len() / 3, whole.len() / 2, whole.len() - 5, whole.len()] {
        fs::write(place.file("a.ndjson.part"), &whole[..bytes]).expect("written");
        let words: &[&str] =
            if bytes > 1000 { &["resuming a.ndjson.part, which has "] } else { &[] };
        place.assert_succeeds(&export("a.ndjson"), words);
        let again = fs::read(place.file("a.ndjson")).expect("an export");
        assert_eq!(again, whole, "after {bytes} bytes");
        assert!(!place.file("a.ndjson.part").exists());
        fs::remove_file(place.file("a.ndjson")).expect("removed");
    }
    // A job of a complete section was finished after the interruption.
    fs::write(place.file("a.ndjson.part"), &whole[..whole.len() - 5]).expect("written");
    let server = Process::start(place.path(), &store).await;
    server.post("/jobs/dead/finish", json!({})).await.expect("an answer");
    drop(server);
    let begin_anew = [&export("a.ndjson")[..], &["--force"]].concat();
    let (succeeded, said) = place.run(&export("a.ndjson"));
    assert!(!succeeded && said.contains("have changed") && said.contains("--force"), "{said}");
    place.assert_succeeds(&begin_anew, &["exported 304 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_is_left_out_only_with_an_option() {
    let place = WorkDir::new();
    place.fill(&[]).await;
    let file = rusqlite::Connection::open(place.file("data/jobs.db")).expect("opened");
    let damaged = file.execute("UPDATE pool SET body = x'00' WHERE id = 'm7'", ());
    assert_eq!(damaged.expect("updated"), 1);
    drop(file);
    let (succeeded, said) = place.run(&["export", "a.ndjson"]);
    let words = ["WARN", "id=m7", "failed to export: 1 jobs", "topic many", "--skip-damaged"];
    assert!(!succeeded && words.iter().all(|word| said.contains(word)), "{said}");
    let export = ["export", "a.ndjson", "--skip-damaged"];
    place.assert_succeeds(&export, &["exported 304 jobs", "left out 1 damaged"]);
    place.assert_succeeds(
        &["--store", "file:./other", "import", "a.ndjson"],
        &["imported 304 jobs"],
    );
}

/// Creates an export whose import takes some time.
async fn create_large_export(place: &WorkDir, jobs: usize) {
    let server = Process::start(place.path(), &[]).await;
    for first in (0..jobs).step_by(1000) {
        let job = |n| json!({"topic": "t", "delay": "1h", "id": format!("j{n}"), "body": n});
        let batch: Vec<Value> = (first..first + 1000).map(job).collect();
        let (status, _) = server.post("/batch/jobs", json!({"jobs": batch})).await.expect("put");
        assert_eq!(status, 200);
    }
    drop(server);
    place.assert_succeeds(&["export", "large.ndjson"], &[&format!("exported {jobs} jobs")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_import_continues_when_run_again() {
    const JOBS: usize = 30_000;
    let (place, redis) = (WorkDir::new(), Redis::start());
    create_large_export(&place, JOBS).await;
    let count = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*:pool')) do \
                 n = n + redis.call('HLEN', key) end return n";
    let count = || {
        let answer = redis.command(&format!("EVAL \"{count}\" 0")).expect("an answer");
        answer.trim_start_matches(':').trim().parse::<usize>().expect("a number")
    };
    let url = redis.url();
    let import = ["--store", &url, "import", "large.ndjson"];
    let mut child =
        program(place.path(), &import).stdout(Stdio::null()).spawn().expect("the program runs");
    while count() == 0 {
        assert!(matches!(child.try_wait(), Ok(None)), "the import ended before it was killed");
    }
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let imported = count();
    assert!((1..JOBS).contains(&imported), "{imported} were imported before it was killed");
    let left = JOBS - imported;
    let words = format!("imported {left} jobs; {imported} of {JOBS} existed already");
    place.assert_succeeds(&import, &[&words, "as many jobs of each topic and state"]);
    assert_eq!(count(), JOBS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_continues_when_a_full_redis_has_room() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    place.fill(&[]).await;
    place.assert_succeeds(&["export", "a.ndjson"], &[]);
    let url = redis.url();
    let import = ["--store", &url, "import", "a.ndjson"];
    drop(Process::start(place.path(), &["--store", &url]).await); // creates the store
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    place.assert_refused(&import, &["full", "Run the same import again to continue"]);
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    place.assert_succeeds(&import, &["imported 305 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_not_subscribe_still_blocks_moves() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    place.fill(&[]).await;
    place.assert_succeeds(&["export", "a.ndjson"], &["exported 305 jobs"]);
    redis.command("ACL SETUSER quiet on nopass ~* resetchannels +@all").expect("an answer");
    let (url, quiet) = (redis.url(), format!("redis://quiet:x@127.0.0.1:{}/", redis.port()));
    let mut server = Process::start(place.path(), &["--store", &quiet]).await;
    let words = ["a server is using this store", "stop it first"];
    place.assert_refused(&["--store", &url, "export", "b.ndjson"], &words);
    place.assert_refused(&["--store", &url, "import", "a.ndjson"], &words);
    // The import waits for the end of the killed server's lease.
    server.kill();
    place.assert_succeeds(&["--store", &url, "import", "a.ndjson"], &["imported 305 jobs"]);
    place.assert_succeeds(&["--store", &url, "export", "b.ndjson"], &["exported 305 jobs"]);
}

/// Waits for the end of a command that must fail. Returns its standard error.
fn failed(mut child: Child) -> String {
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!child.wait().expect("it ends").success(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_during_a_move_is_noticed() {
    const JOBS: usize = 30_000;
    let (place, redis) = (WorkDir::new(), Redis::start());
    create_large_export(&place, JOBS).await;
    let url = redis.url();
    let store = ["--store", url.as_str()];
    let begin = |arguments: &[&str]| {
        let mut command = program(place.path(), &[&store[..], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    };

    let import = begin(&["import", "large.ndjson"]);
    let began = Instant::now();
    while redis.command("EXISTS {dq:0}:pool").as_deref() != Some(":1\r\n") {
        assert!(began.elapsed() < patience(), "the import has put no job");
    }
    let frozen = Frozen::freeze(import.id());
    let mut server = Process::start(place.path(), &store).await;
    frozen.thaw();
    let said = failed(import);
    let words =
        ["failed to import large.ndjson", "a server has started", "Do not import the file again"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    server.kill();

    // The test reads the export only after the server has started, so that the export must wait.
    let mut export = begin(&["export", "-"]);
    let mut written = vec![0; 1];
    let mut output = export.stdout.take().expect("piped");
    output.read_exact(&mut written).expect("the export has begun");
    let server = Process::start(place.path(), &store).await;
    output.read_to_end(&mut written).expect("the rest");
    let said = failed(export);
    let words = ["failed to export", "a server has started", "stop it"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    drop(server);
    fs::write(place.file("cut.ndjson"), written).expect("written");
    let (succeeded, said) = place.run(&["--store", "file:./cut", "import", "cut.ndjson"]);
    assert!(!succeeded && said.contains("it is truncated"), "{said}");
}
