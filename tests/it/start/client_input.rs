//! Bad input of client commands: one clear sentence and a documented exit code.

use crate::start::prelude::*;

#[test]
fn an_unreachable_server_and_wrong_urls_are_explained() {
    let away = format!("http://127.0.0.1:{}", free_port());
    let mut shell = Shell::new(&away);
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
    let shell = Shell::new("http://127.0.0.1:1");
    shell.fails(&["put", "t", "hello"], 2, &["must be JSON", "'\"hello\"'"]);
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
        (
            &["token", "create", "--name", "a", "--scope", "admin", "--expires", "90"],
            "lacks a unit",
        ),
    ] {
        let output = shell.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{said}");
    }
    let help = text(&shell.run(&["pop", "--help"]).stdout);
    assert!(help.contains("Exit codes: 0 done, 1 refused") && help.contains("3 nothing"), "{help}");
}
