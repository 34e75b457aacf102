//! Bad input of client commands: one clear sentence and a documented exit code.

use crate::start::prelude::*;

#[test]
fn an_unreachable_server_and_wrong_urls_are_explained() {
    let place = WorkDir::new();
    let away = format!("http://127.0.0.1:{}", free_port());
    let mut shell = Shell::new(&place, &away);
    shell.fails(&["topics"], 4, &["failed to reach the server", &away, "refused"]);
    shell.fails(&["topics", "--url", "ftp://here"], 2, &["http://", "ftp://here"]);
    shell.fails(&["topics", "--token", "secret"], 2, &["--token", "dq_"]);
    shell.fails(&["topics", "--url", "https://127.0.0.1", "--ca-file", "no"], 2, &["--ca-file"]);
    shell.variables.push(("DELAY_QUEUE_TOKEN", "secret".to_owned()));
    let said = text(&shell.run(&["topics"]).stderr);
    assert!(said.contains("DELAY_QUEUE_TOKEN") && !said.contains("secret"), "{said}");
}

#[test]
fn wrong_arguments_are_explained() {
    let place = WorkDir::new();
    let shell = Shell::new(&place, "http://127.0.0.1:1");
    let put = |body| ["put", "t", body];
    shell.fails(&put("hello"), 2, &["must be JSON", "'\"hello\"'"]);
    shell.fails(&["put", "t", "--body-file", "none.json"], 2, &["none.json"]);
    shell.fails(&["topic", "t", "set"], 2, &["--ttr"]);
    shell.fails(&["kick", "a", "--dry-run"], 2, &["--topic"]);
    for (arguments, word) in [
        (&["put"][..], "<TOPIC>"),
        (&["purge", "t", "--yes", "--store", "redis://127.0.0.1:1"], "--url"),
        (&["topics", "--check-config"], "--url"),
        (&["put", "t", "--at", "tomorrow"], "Europe/Berlin"),
        (&["put", "t", "--at", "2026-12-24 18:00 Mars/Base"], "tzdata"),
        (&["put", "t", "--delay", "1 hour"], "a duration"),
        (&["put", "t", "--header", "x"], "NAME=VALUE"),
        (&["list", "t", "--state", "lost"], "delayed"),
        (&["finish", "a", "--result", "x"], "must be JSON"),
    ] {
        let output = shell.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{said}");
    }
    let help = text(&shell.run(&["pop", "--help"]).stdout);
    assert!(help.contains("Exit codes: 0 done, 1 refused") && help.contains("3 nothing"), "{help}");
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = WorkDir::new();
    let server = Logged::start(&place, "");
    let shell = Shell::new(&place, &server.base);
    shell.one(&["put", "t"]);
    let mut child = shell.command(&["topics"]).stdout(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_certificate_of_the_server_is_checked() {
    let place = WorkDir::new();
    let (ours, other) = (Authority::new(&place, "ours"), Authority::new(&place, "other"));
    let server = Logged::start(&place, &https(&ours.sign(&place, "127.0.0.1"), ""));
    let mut shell = Shell::new(&place, &format!("https://{}", address(&server)));
    shell.one(&["put", "t", "--id", "a", "--ca-file", &ours.file]);
    shell.fails(&["topics", "--ca-file", &other.file], 4, &["certificate"]);
    shell.variables.push(("DELAY_QUEUE_CA_FILE", ours.file.clone()));
    assert_eq!(shell.one(&["get", "a"])["id"], "a");
    // The file is of no use over HTTP, and does not prevent it.
    shell.fails(&["topics", "--url", &server.base], 1, &["requires TLS", "https://"]);
}
