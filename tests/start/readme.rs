//! The README's curl lines, run as they stand (but for the port).

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::{
    access::{smallest, use_all},
    process::Process,
    said::{Place, store},
    support::Redis,
};

/// The code blocks of the README that are marked as this language.
fn blocks(language: &str) -> Vec<String> {
    let readme = include_str!("../../README.md");
    let opening = format!("```{language}\n");
    let after = readme.split(opening.as_str()).skip(1);
    after.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_lines_of_the_readme_do_what_it_says() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let server = Process::start(dir.path(), &[]).await;
    let lines: Vec<String> = blocks("sh")
        .iter()
        .flat_map(|block| block.lines().map(ToOwned::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("curl ") || line.starts_with("reservation="))
        .collect();
    assert!(lines.len() >= 8, "the README shows the API by example: {lines:?}");
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
async fn the_acl_line_of_the_readme_can_be_pasted_and_is_enough() {
    let (place, redis) = (Place::new(), Redis::start());
    let readme = include_str!("../../README.md");
    let lines: Vec<&str> = readme.lines().filter(|l| l.starts_with("ACL SETUSER ")).collect();
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
