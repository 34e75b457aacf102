//! The README's curl lines, run as they stand (but for the port).

use std::process::Command;

use crate::process::Process;

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
    let ran = tokio::task::spawn_blocking(move || {
        Command::new("bash").args(["-c", &script]).output().expect("bash runs")
    });
    let ran = ran.await.expect("joined");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("\"jobs\":[{") && said.contains("\"state\":\"delayed\""), "{said}");
}
