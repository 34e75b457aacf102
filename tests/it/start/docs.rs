//! The commands of the README and of docs/, run as they stand (but for the port).

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    start::{
        access::{smallest, use_all},
        outputs::{Place, store},
    },
    support::{Redis, process::Process},
};

const README: &str = include_str!("../../../README.md");
const API: &str = include_str!("../../../docs/api.md");
const REDIS: &str = include_str!("../../../docs/redis.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const PERFORMANCE: &str = include_str!("../../../docs/performance.md");

/// The code blocks of a page that are marked as this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let after = page.split(opening.as_str()).skip(1);
    after.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The lines of a page's shell blocks.
fn lines(page: &str) -> Vec<String> {
    blocks(page, "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_lines_do_what_the_pages_say() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Process::start(dir.path(), &[]).await;
    let is_call = |line: &String| line.starts_with("curl ") || line.starts_with("reservation=");
    let lines: Vec<String> =
        [lines(README), lines(API)].concat().into_iter().filter(is_call).collect();
    assert!(lines.len() >= 16, "the pages show the API by example: {lines:?}");
    let script = lines.join("\n").replace("http://127.0.0.1:9277", &server.base);
    let script = format!("set -euo pipefail\nexec 2>&1\n{script}\n")
        .replace("curl ", "curl --fail-with-body ");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let ran = tokio::task::spawn_blocking(move || {
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(scratch.path()).output().expect("bash runs")
    });
    let ran = ran.await.expect("joined");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("\"jobs\":[{") && said.contains("\"state\":\"delayed\""), "{said}");
    assert_eq!(said.matches("\"status\":204").count(), 2, "both jobs of the batch: {said}");
    let finishes = lines.iter().filter(|line| line.contains("finish"));
    assert!(
        finishes.into_iter().all(|line| line.contains("reservation")),
        "examples finish by reservation: {lines:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_of_the_readme_finishes_jobs_and_releases_those_that_fail() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Process::start(dir.path(), &[]).await;
    let [consumer] = &blocks(README, "python")[..] else { panic!("one consumer") };
    let consumer = consumer.replace("http://127.0.0.1:9277", &server.base);
    let put = |id: &str, body: Value| json!({"topic": "orders", "id": id, "body": body, "backoff": ["1h"]});
    server.post("/jobs", put("good", json!({"order": 1}))).await.expect("put");
    server.post("/jobs", put("bad", json!({}))).await.expect("put");
    let mut python = Command::new("python3").args(["-c", &consumer]).spawn().expect("python3 runs");
    let both_are_done = async {
        loop {
            let (good, (_, bad)) =
                (server.get("/jobs/good").await.0, server.get("/jobs/bad").await);
            if good == 404 && bad["state"] == "delayed" {
                return bad;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let bad = tokio::time::timeout(Duration::from_secs(60), both_are_done).await;
    python.kill().expect("stopped by its process id");
    python.wait().expect("it ends");
    let bad = bad.expect("both are done in time");
    assert_eq!((&bad["attempt"], &bad["error"]), (&json!(1), &json!("'order'")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_move_jobs_run_as_the_page_has_them() {
    let (dir, redis) = (tempfile::tempdir().expect("a temporary folder"), Redis::start());
    let mut server = Process::start(dir.path(), &[]).await;
    server.post("/jobs", json!({"topic": "t", "id": "moved", "delay": "1h"})).await.expect("put");
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let commands: Vec<String> = lines(OPERATIONS);
    assert_eq!(commands.len(), 4, "{commands:?}");
    let script =
        commands.join("\n").replace("127.0.0.1:6379", &format!("127.0.0.1:{}", redis.port()));
    let script = format!("set -euo pipefail\nexec 2>&1\n{script}\ngunzip < jobs.gz | grep moved\n");
    let path = format!("{}:{}", bin(), std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    let ran = bash.args(["-c", &script]).current_dir(dir.path()).env("PATH", path).output();
    let ran = ran.expect("bash runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

/// The folder that has the program.
fn bin() -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_delay-queue"));
    program.parent().expect("a folder").display().to_string()
}

#[test]
fn the_other_commands_of_the_pages_are_understood() {
    let path = format!("{}:{}", bin(), std::env::var("PATH").expect("a path"));
    let ours = |line: &String| line.starts_with("delay-queue ");
    let commands: Vec<String> = [lines(REDIS), lines(PERFORMANCE)].concat();
    assert!(commands.iter().all(ours) && commands.len() >= 8, "{commands:?}");
    for command in commands {
        // To parse them needs none of the servers that they name.
        let command = command.split('#').next().unwrap_or_default().to_owned() + " --help";
        let ran = Command::new("bash").args(["-c", &command]).env("PATH", &path).output();
        let ran = ran.expect("bash runs");
        assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_acl_line_of_the_documentation_can_be_pasted_and_is_enough() {
    let (place, redis) = (Place::new(), Redis::start());
    let lines: Vec<&str> = REDIS.lines().filter(|l| l.starts_with("ACL SETUSER ")).collect();
    let [line] = lines[..] else { panic!("one line: {lines:?}") };
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, user, "on", password, rule @ ..] = &words[..] else { panic!("{line}") };
    assert_eq!(rule.join(" "), smallest(), "what the tests of access allow");

    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &redis.port().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cli = cli.spawn().expect("redis-cli runs");
    let mut paste = cli.stdin.take().expect("a pipe");
    writeln!(paste, "{line}").expect("pasted");
    drop(paste);
    let said = cli.wait_with_output().expect("it ends").stdout;
    assert_eq!(String::from_utf8_lossy(&said).trim(), "OK", "{line}");

    let password = password.trim_start_matches('>');
    let url = format!("redis://{user}:{password}@127.0.0.1:{}/", redis.port());
    let file = place.file("least.toml", &store(&url, ""));
    use_all(&Process::start(place.path(), &["--config", &file]).await).await;
}
