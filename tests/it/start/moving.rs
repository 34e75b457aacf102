//! `delay-queue export` and `import`: they move everything, and write nothing if they fail.

use crate::start::prelude::*;

/// A folder with a store and exports.
struct Folder {
    dir: WorkDir,
    /// Options that name another store than that of the folder.
    options: Vec<String>,
}

impl Folder {
    fn new() -> Self {
        Self { dir: WorkDir::new(), options: Vec::new() }
    }

    /// Returns the same folder with another store.
    fn with_store(&self, url: &str, more: &[&str]) -> Self {
        let options = [&["--store", url], more].concat().into_iter().map(str::to_owned);
        Self { dir: self.dir.clone(), options: options.collect() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).expect("a file")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.file(name), bytes).expect("written");
    }

    fn arguments<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        self.options.iter().map(String::as_str).chain(command.iter().copied()).collect()
    }

    async fn server(&self) -> Process {
        Process::start(self.path(), &self.arguments(&[])).await
    }

    fn command(&self, command: &[&str]) -> Command {
        program(self.path(), &self.arguments(command))
    }

    #[track_caller]
    fn assert_succeeds(&self, command: &[&str], words: &[&str]) {
        self.dir.assert_succeeds(&self.arguments(command), words);
    }

    #[track_caller]
    fn export(&self, file: &str, words: &[&str]) {
        self.assert_succeeds(&["export", file], words);
    }

    #[track_caller]
    fn import(&self, file: &str, words: &[&str]) {
        self.assert_succeeds(&["import", file], words);
    }

    /// Asserts that a command fails with one line that contains all of `words`.
    #[track_caller]
    fn assert_refused(&self, command: &[&str], words: &[&str]) {
        let output = output(self.path(), &self.arguments(command));
        let line = one_line(&output, words);
        assert!(line.starts_with("delay-queue: failed to ") && output.stdout.is_empty(), "{line}");
    }

    /// Puts jobs into the store and brings them into every state in every way. Returns the answers
    /// about them.
    async fn fill(&self) -> Vec<(String, String)> {
        let server = self.server().await;
        for fields in [
            r#""id": "late", "topic": "t", "delay": "1h", "backoff": {"initial": 1, "max": "1h"}"#,
            r#""id": "now", "topic": "t", "max_attempts": 0, "ttr": "90s""#,
            r#""id": "again", "topic": "t", "backoff": ["2m", "10m"]"#,
            r#""id": "held", "topic": "held""#,
            r#""id": "dead", "topic": "dead""#,
        ] {
            let put = crate::support::http::client().post(format!("{}/jobs", server.base));
            let put = put.body(format!("{{{fields}, \"body\": {BODY}}}")).send().await;
            assert!(put.expect("an answer").status().is_success(), "{fields}");
        }
        for path in ["held/pop?ttr=1h", "dead/pop", "t/pop", "t/pop"] {
            server.get(&format!("/topics/{path}")).await;
        }
        let jobs: Vec<Value> =
            (0..300).map(|n| json!({"topic": "many", "id": format!("m{n}")})).collect();
        for (path, body) in [
            ("/jobs/dead/bury", json!({"error": "no\nhope"})),
            ("/jobs/again/release", json!({"error": "busy"})),
            ("/jobs/now/release", json!({})),
            ("/topics/t/pause", json!({})),
            ("/topics/held/pause", json!({"for": "1h"})),
            ("/batch/jobs", json!({"jobs": jobs})),
        ] {
            server.post_ok(path, body).await;
        }
        let defaults = json!({"ttr": 7, "backoff": [1]});
        assert_eq!(server.put("/topics/dead", defaults).await, Some(200));
        shown_contents(&server).await
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
        let text = server.text(&path).await;
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
fn job_lines(text: &str) -> Vec<&str> {
    let mut jobs: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"job\"")).collect();
    jobs.sort_unstable();
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_of_the_old_store_is_valid_in_the_new_one() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let server = place.server().await;
    server.post_ok("/batch/jobs", json!({"jobs": [{"topic": "t"}, {"topic": "t"}]})).await;
    let popped = server.get("/topics/t/pop?count=2&ttr=1h").await.1;
    drop(server);
    place.export("one.ndjson", &["exported 2 jobs"]);
    on_redis.import("one.ndjson", &["imported 2 jobs"]);
    let server = on_redis.server().await;
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
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let before = place.fill().await;
    assert!(before[0].1.contains(&format!("\"body\":{BODY}")), "{}", before[0].1);

    place.export("one.ndjson", &["exported 305 jobs", "the settings of 3 topics"]);
    let imported = "imported 305 jobs; 0 of 305 existed already; applied the settings of 3 topics";
    on_redis.import("one.ndjson", &[imported, "as many jobs"]);
    on_redis.export("two.ndjson", &["exported 305 jobs"]);
    place.write("3.toml", "[store]\nbuckets = 3\n");
    let other = place.with_store("file:./other", &["--config", "3.toml"]);
    other.import("two.ndjson", &["imported 305 jobs", "as many"]);
    other.export("three.ndjson", &["exported 305 jobs"]);
    let [one, two, three] = ["one", "two", "three"].map(|n| place.text(&format!("{n}.ndjson")));
    assert!(three.contains("\"buckets\":3"));
    for exported in [&two, &three] {
        assert_eq!(job_lines(exported), job_lines(&one));
    }
    for moved in [&other, &on_redis] {
        assert_eq!(shown_contents(&moved.server().await).await, before);
    }

    // The import counts existing jobs and does not change them.
    let again = "imported 0 jobs; 305 of 305 existed already";
    on_redis.import("one.ndjson", &[again, "as many jobs"]);
    on_redis.server().await.put_job(json!({"topic": "new", "id": "another"})).await;
    on_redis.import("one.ndjson", &["305 of 305 existed already", "1 other jobs as before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_resumes_no_topic_and_removes_no_defaults() {
    let place = Folder::new();
    place.fill().await;
    place.export("a.ndjson", &["the settings of 3 topics"]);
    let other = place.with_store("file:./other", &[]);
    let server = other.server().await;
    for topic in ["dead", "held"] {
        server.post_ok(&format!("/topics/{topic}/pause"), json!({})).await;
    }
    for topic in ["t", "dead"] {
        assert_eq!(server.put(&format!("/topics/{topic}"), json!({"ttr": 9})).await, Some(200));
    }
    drop(server);
    // Imports twice: the second import finds the settings that the first one has made.
    for _ in 0..2 {
        other.import("a.ndjson", &["applied the settings of 3 topics"]);
        let server = other.server().await;
        for (name, ttr) in [("t", json!(9)), ("held", Value::Null), ("dead", json!(7))] {
            let topic = server.get(&format!("/topics/{name}")).await.1;
            let is_paused = (&topic["paused"], &topic["paused_until"]);
            assert_eq!(is_paused, (&json!(true), &Value::Null), "{topic}");
            assert_eq!(topic["defaults"]["ttr"], ttr, "{topic}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_moves_without_its_secrets_and_waits_for_a_resume() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let server = place.server().await;
    let push = json!({
        "url": "https://hook.invalid/", "rate": "5/s", "secrets": [format!("whsec_{}", "AQID".repeat(8))],
        "headers": {"authorization": "Bearer key", "a": "1"}, "batch": {"max": 2},
    });
    assert_eq!(server.put("/topics/t/push", push.clone()).await, Some(201));
    drop(server);
    place.export("a.ndjson", &["the settings of 1 topics"]);
    let file = place.text("a.ndjson");
    assert!(!file.contains("AQID") && !file.contains("Bearer"), "{file}");
    on_redis.import("a.ndjson", &["applied the settings of 1 topics"]);
    let server = on_redis.server().await;
    let (_, shown) = server.get("/topics/t/push").await;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("paused"), &json!("imported")));
    assert_eq!((&shown["rate"], &shown["secret_count"]), (&json!("5/s"), &json!(0)), "{shown}");
    assert_eq!((&shown["headers"], &shown["batch"]["max"]), (&json!({"a": "1"}), &json!(2)));
    // Only a resume ends the pause. A second import does not bring it back, and keeps the secrets.
    assert_eq!(server.put("/topics/t/push", push).await, Some(200));
    assert_eq!(server.get("/topics/t/push").await.1["reason"], "imported");
    let resumed = server.post_ok("/topics/t/push/resume", json!({})).await;
    assert_eq!((&resumed["state"], &resumed["secret_count"]), (&json!("running"), &json!(1)));
    drop(server);
    on_redis.import("a.ndjson", &["applied the settings of 1 topics"]);
    let server = on_redis.server().await;
    assert_eq!(server.get("/topics/t/push").await.1, resumed);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_move_with_their_state_and_replace_none() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let server = place.server().await;
    let yearly = json!({
        "topic": "t", "cron": "0 9 1 1 *", "timezone": "Europe/Berlin", "jitter": "500w", "overlap": "skip",
        "missed": "all", "body": {"a": [1]}, "ttr": 7, "headers": {"x-a": "b"},
    });
    assert_eq!(server.put("/schedules/yearly", yearly).await, Some(201));
    server.post_ok("/schedules/yearly/run", json!({})).await;
    let paused = json!({"topic": "t", "every": "1d"});
    assert_eq!(server.put("/schedules/paused", paused).await, Some(201));
    server.post_ok("/schedules/paused/pause", json!({})).await;
    let before = server.get_ok("/schedules/yearly").await;
    assert_eq!(before["last"]["state"], "delayed", "{before}");
    drop(server);
    place.export("a.ndjson", &["exported 1 jobs", "and 2 schedules to"]);

    on_redis.import("a.ndjson", &["; imported 2 schedules; 0 of 2 existed already"]);
    let server = on_redis.server().await;
    assert_eq!(server.get_ok("/schedules/yearly").await, before);
    assert_eq!(server.get_ok("/schedules/paused").await["paused"], true);
    let changed = json!({"topic": "t", "every": "2d"});
    assert_eq!(server.put("/schedules/paused", changed).await, Some(200));
    let existing = server.get_ok("/schedules/paused").await;
    assert_eq!(server.delete("/schedules/yearly").await, Some(204));
    drop(server);
    on_redis.import("a.ndjson", &["; imported 1 schedules; 1 of 2 existed already"]);
    let server = on_redis.server().await;
    assert_eq!(server.get_ok("/schedules/paused").await, existing);
    assert_eq!(server.get_ok("/schedules/yearly").await, before);
    drop(server);
    on_redis.export("b.ndjson", &["exported 1 jobs", "and 2 schedules to"]);
}

/// The last instant before a move that no server has put is put after it, and no other again.
#[tokio::test(flavor = "multi_thread")]
async fn an_imported_schedule_continues_with_its_next_instant() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let server = place.server().await;
    let every = json!({"topic": "t", "every": "1s", "missed": "all", "body": "tick"});
    assert_eq!(server.put("/schedules/tick", every).await, Some(201));
    let mut popped = instants(&server, 2).await;
    drop(server);
    place.export("a.ndjson", &["and 1 schedules to"]);
    on_redis.import("a.ndjson", &["imported 1 schedules"]);
    let server = on_redis.server().await;
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
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    let before = place.fill().await;
    place.export("a.ndjson", &[]);
    let file = fs::read(place.file("a.ndjson")).expect("an export");

    let export = output(place.path(), &["export", "-"]);
    let said = text(&export.stderr);
    assert!(export.status.success(), "{said}");
    assert!(said.contains("exported 305 jobs") && said.contains("standard output"), "{said}");
    assert!(export.stdout == file, "standard output differs from the export to a file");
    assert!(!place.file("-").exists() && !place.file("-.part").exists());

    let import = |bytes: &[u8]| {
        place.write("piped", bytes);
        let mut cat = Command::new("cat");
        let cat = cat.arg(place.file("piped")).stdout(Stdio::piped()).spawn();
        let mut cat = Killed(cat.expect("cat runs"));
        let pipe = cat.0.stdout.take().expect("a pipe");
        on_redis.command(&["import", "-"]).stdin(pipe).output().expect("the program runs")
    };
    let cut = import(&file[..file.len() / 2]);
    let words =
        ["failed to import standard input: line ", "it is truncated", "nothing was written"];
    assert!(words.iter().all(|word| text(&cut.stderr).contains(word)), "{cut:?}");
    assert!(!cut.status.success());
    assert_empty(&redis);
    let whole = import(&file);
    let said = text(&whole.stdout) + &text(&whole.stderr);
    assert!(whole.status.success(), "{said}");
    assert!(said.contains("imported 305 jobs") && said.contains("as many"), "{said}");
    assert_eq!(shown_contents(&on_redis.server().await).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_or_damaged_export_is_refused_completely() {
    let place = Folder::new();
    place.fill().await;
    place.export("good.ndjson", &[]);
    let good = place.text("good.ndjson");
    let last = good.lines().count();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    let cut = |n: usize| lines[..n].concat();
    let bad = place.with_store("file:./bad", &[]);
    let no_export = ["line 1", "not an export of delay-queue", ""];
    let changed = |old: &str, new: &str| good.replacen(old, new, 1);
    let fewer = changed("\"jobs\":305,\"topics\"", "\"jobs\":304,\"topics\"");
    for (text, words) in [
        (cut(last - 1), [&format!("line {last}")[..], "it is truncated", ""]),
        (cut(100) + &lines[100][..50], ["line 101", "it is truncated", ""]),
        (String::new(), no_export),
        ("{\"jobs\": []}\n".to_owned(), no_export),
        (changed("\"version\":1", "\"version\":2"), ["line 1", "version 2", "version 1"]),
        (changed("\"id\":\"m7\"", "\"id\":\"m8\""), ["section", "damaged", ""]),
        (fewer, ["the file is damaged", "304", "305"]),
        (lines[0].to_owned() + &lines[2..].concat(), ["section", "damaged", ""]),
        (good.clone() + "\n", ["more data after the last line", "", ""]),
        (changed("\"state\":\"ready\"", "\"state\":\"raedy\""), ["raedy", "column", ""]),
    ] {
        place.write("bad.ndjson", text);
        let words = [&words[..], &["bad.ndjson: line ", "nothing was written"]].concat();
        bad.assert_refused(&["import", "bad.ndjson"], &words);
        assert!(!place.file("bad").exists(), "the refused import has created a store");
    }
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
    let place = Folder::new();
    let bad_store = place.with_store("file:./bad", &[]);
    let line = |id: &str, more: &str| {
        let rest = r#""topic":"t","body":"1","created_at":1,"due_at":2,"max_attempts":1"#;
        let rest = format!(r#"{rest},"ttr_ms":1000,"dead_retention_ms":5"#);
        format!("{{\"job\":{{\"id\":\"{id}\",{rest},{more}}}}}\n")
    };
    let good = line("a", r#""state":"ready""#);
    let late =
        r#""state":"reserved","attempt":1,"reserved_ttr_ms":1,"reserved_until":99999999999999"#;
    let died_late = r#""state":"dead","attempt":1,"died_at":253402300799999"#;
    let number = |field: &str, old: u64, new: u64| {
        good.replace(&format!("\"{field}\":{old}"), &format!("\"{field}\":{new}"))
    };
    let kept = number("dead_retention_ms", 5, 315_576_000_001);
    for (bad, words) in [
        (good.clone(), "line 3: its id is already in line 2"),
        (line("b", r#""state":"reserved""#), "line 3: its fields do not fit its state"),
        (line("b", r#""state":"ready","died_at":3"#), "line 3: its fields do not fit its state"),
        (line("b", r#""state":"gone""#), "line 3: unknown variant `gone`"),
        (line("b", r#""state":"ready","color":3"#), "line 3: unknown field `color`"),
        (line("b/c", r#""state":"ready""#), "line 3: must be 1 to 128 characters"),
        (good.replace("\"1\"", "\"[\"").replace("\"a\"", "\"b\""), "line 3: `body` is not JSON"),
        (number("due_at", 2, 100_000_000_000_000), "line 3: `due_at` must be at most"),
        (line("b", late), "line 3: `reserved_until` must be at most"),
        (line("b", died_late), "`died_at` must be at most"),
        (number("ttr_ms", 1000, 0), "line 3: `ttr_ms` must be at least 1"),
        (kept, "line 3: `dead_retention_ms` must be at most"),
    ] {
        place.write("a.ndjson", export_with_valid_sums(&[&good, &bad]));
        bad_store.assert_refused(&["import", "a.ndjson"], &[words, "nothing was written"]);
        assert!(!place.file("bad").exists());
    }
    place.write("a.ndjson", export_with_valid_sums(&[&good]));
    bad_store.import("a.ndjson", &["imported 1 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_overwrites_no_file_and_creates_no_store() {
    let place = Folder::new();
    let other = place.with_store("file:./other", &[]);
    place.assert_refused(&["export", "a.ndjson"], &["there is none in", "data"]);
    assert!(!place.file("data").exists() && !place.file("a.ndjson.part").exists());
    let server = place.server().await;
    place.assert_refused(&["export", "a.ndjson"], &["another delay-queue", "is using it"]);
    drop(server);
    place.write("a.ndjson", "mine");
    place.assert_refused(&["export", "a.ndjson"], &["a.ndjson exists already", "--force"]);
    assert_eq!(place.text("a.ndjson"), "mine");
    place.assert_succeeds(&["export", "--force", "a.ndjson"], &["exported 0 jobs"]);
    other.import("a.ndjson", &["imported 0 jobs"]);

    place.write("b.ndjson.part", "mine");
    place.assert_refused(&["export", "b.ndjson"], &["b.ndjson.part", "not an export", "--force"]);
    fs::copy(place.file("a.ndjson"), place.file("b.ndjson.part")).expect("copied");
    let words = ["b.ndjson.part", "it is an export of file:/", "--force"];
    other.assert_refused(&["export", "b.ndjson"], &words);
    assert!(!place.file("b.ndjson").exists());
    place.assert_refused(&["export", "no/such/dir/c"], &["no/such/dir/c.part"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_export_is_resumed() {
    let redis = Redis::start();
    let place = Folder::new().with_store(&redis.url(), &[]);
    place.fill().await;
    place.export("whole.ndjson", &["exported 305 jobs"]);
    let whole = fs::read(place.file("whole.ndjson")).expect("an export");
    // The file ends in the head, in a section, between two sections, in the total, or at its real
    // end.
    for bytes in [0, 10, whole.len() / 3, whole.len() / 2, whole.len() - 5, whole.len()] {
        place.write("a.ndjson.part", &whole[..bytes]);
        let words = if bytes > 1000 { "resuming a.ndjson.part, which has " } else { "" };
        place.export("a.ndjson", &[words]);
        let again = fs::read(place.file("a.ndjson")).expect("an export");
        assert_eq!(again, whole, "after {bytes} bytes");
        assert!(!place.file("a.ndjson.part").exists());
        fs::remove_file(place.file("a.ndjson")).expect("removed");
    }
    // A job of a complete section was finished after the interruption.
    place.write("a.ndjson.part", &whole[..whole.len() - 5]);
    place.server().await.post_ok("/jobs/dead/finish", json!({})).await;
    let export = place.arguments(&["export", "a.ndjson"]);
    place.dir.assert_fails(&export, &["have changed", "--force"]);
    place.assert_succeeds(&["export", "a.ndjson", "--force"], &["exported 304 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_is_left_out_only_with_an_option() {
    let place = Folder::new();
    place.fill().await;
    let file = rusqlite::Connection::open(place.file("data/jobs.db")).expect("opened");
    let damaged = file.execute("UPDATE pool SET body = x'00' WHERE id = 'm7'", ());
    assert_eq!(damaged.expect("updated"), 1);
    drop(file);
    let words = ["WARN", "id=m7", "failed to export: 1 jobs", "topic many", "--skip-damaged"];
    place.dir.assert_fails(&["export", "a.ndjson"], &words);
    let export = ["export", "a.ndjson", "--skip-damaged"];
    place.assert_succeeds(&export, &["exported 304 jobs", "left out 1 damaged"]);
    place.with_store("file:./other", &[]).import("a.ndjson", &["imported 304 jobs"]);
}

/// Creates an export whose import takes some time.
async fn create_large_export(place: &Folder, jobs: usize) {
    let server = place.server().await;
    for first in (0..jobs).step_by(1000) {
        let job = |n| json!({"topic": "t", "delay": "1h", "id": format!("j{n}"), "body": n});
        let batch: Vec<Value> = (first..first + 1000).map(job).collect();
        server.post_ok("/batch/jobs", json!({"jobs": batch})).await;
    }
    drop(server);
    place.export("large.ndjson", &[&format!("exported {jobs} jobs")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_import_continues_when_run_again() {
    const JOBS: usize = 30_000;
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    create_large_export(&place, JOBS).await;
    let count = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*:pool')) do \
                 n = n + redis.call('HLEN', key) end return n";
    let count = || {
        let answer = redis.command(&format!("EVAL \"{count}\" 0")).expect("an answer");
        answer.trim_start_matches(':').trim().parse::<usize>().expect("a number")
    };
    let mut import = on_redis.command(&["import", "large.ndjson"]);
    let mut import = Killed(import.stdout(Stdio::null()).spawn().expect("the program runs"));
    while count() == 0 {
        assert!(matches!(import.0.try_wait(), Ok(None)), "the import ended before it was killed");
    }
    drop(import);
    let imported = count();
    assert!((1..JOBS).contains(&imported), "{imported} were imported before it was killed");
    let left = JOBS - imported;
    let words = format!("imported {left} jobs; {imported} of {JOBS} existed already");
    on_redis.import("large.ndjson", &[&words, "as many jobs of each topic and state"]);
    assert_eq!(count(), JOBS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_continues_when_a_full_redis_has_room() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    place.fill().await;
    place.export("a.ndjson", &[]);
    drop(on_redis.server().await); // creates the store
    redis.command("CONFIG SET maxmemory 1").expect("an answer");
    let words = ["full", "Run the same import again to continue"];
    on_redis.assert_refused(&["import", "a.ndjson"], &words);
    redis.command("CONFIG SET maxmemory 0").expect("an answer");
    on_redis.import("a.ndjson", &["imported 305 jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_not_subscribe_still_blocks_moves() {
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    place.fill().await;
    place.export("a.ndjson", &["exported 305 jobs"]);
    redis.command("ACL SETUSER quiet on nopass ~* resetchannels +@all").expect("an answer");
    let quiet = format!("redis://quiet:x@127.0.0.1:{}/", redis.port());
    let mut server = place.with_store(&quiet, &[]).server().await;
    for command in [["export", "b.ndjson"], ["import", "a.ndjson"]] {
        on_redis.assert_refused(&command, &["a server is using this store", "stop it first"]);
    }
    // The import waits for the end of the killed server's lease.
    server.kill();
    on_redis.import("a.ndjson", &["imported 305 jobs"]);
    on_redis.export("b.ndjson", &["exported 305 jobs"]);
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
    let (place, redis) = (Folder::new(), Redis::start());
    let on_redis = place.with_store(&redis.url(), &[]);
    create_large_export(&place, JOBS).await;
    let begin = |command: &[&str]| {
        let mut command = on_redis.command(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    };

    let import = begin(&["import", "large.ndjson"]);
    let has_begun = || redis.command("EXISTS {dq:0}:pool").as_deref() == Some(":1\r\n");
    eventually!(has_begun(), "the import has put no job");
    let frozen = Frozen::freeze(import.id());
    let mut server = on_redis.server().await;
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
    let server = on_redis.server().await;
    output.read_to_end(&mut written).expect("the rest");
    let said = failed(export);
    let words = ["failed to export", "a server has started", "stop it"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    drop(server);
    place.write("cut.ndjson", written);
    let cut = place.with_store("file:./cut", &[]);
    // If the machine is busy, a line of progress precedes the refusal.
    let refused = super::output(cut.path(), &cut.arguments(&["import", "cut.ndjson"]));
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("it is truncated"), "{said}");
}
