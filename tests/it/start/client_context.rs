//! Contexts: which server a command uses, and the file that keeps them.

use crate::start::prelude::*;

/// Returns a shell whose contexts are in the folder.
fn shell() -> Shell {
    let place = WorkDir::new();
    let home = place.path().display().to_string();
    Shell { place, variables: vec![("XDG_CONFIG_HOME", home)] }
}

#[test]
fn options_come_before_variables_and_variables_before_contexts() {
    let (mut shell, servers) = (shell(), [(); 3].map(|()| logged("")));
    for (name, (_, server)) in ["a", "b", "c"].iter().zip(&servers) {
        let url = server.base.as_str();
        shell.one(&["put", name, "--url", url]);
        let added = shell.run(&["context", "add", name, "--url", url]);
        assert!(added.status.success(), "{added:?}");
        let is_first = text(&added.stderr).contains("use the context a");
        assert_eq!(is_first, *name == "a", "{added:?}");
    }
    let used = |shell: &Shell, options: &[&str]| {
        shell.one(&[&["topics"], options].concat())["topic"].clone()
    };
    assert_eq!(used(&shell, &[]), "a");
    shell.lines(&["context", "use", "b"]);
    assert_eq!(used(&shell, &[]), "b");
    assert_eq!(used(&shell, &["--context", "c"]), "c");
    shell.variables.push(("DELAY_QUEUE_CONTEXT", "c".to_owned()));
    assert_eq!(used(&shell, &[]), "c");
    assert_eq!(used(&shell, &["--context", "a"]), "a");
    assert_eq!(used(&shell, &["--url", &servers[0].1.base]), "a");
    shell.variables.push(("DELAY_QUEUE_URL", servers[0].1.base.clone()));
    shell.fails(&["topics"], 2, &["DELAY_QUEUE_URL", "DELAY_QUEUE_CONTEXT"]);
    assert_eq!(used(&shell, &["--context", "b"]), "b");
    shell.variables.retain(|(name, _)| *name != "DELAY_QUEUE_CONTEXT");
    assert_eq!(used(&shell, &[]), "a");

    let rows = shell.lines(&["context", "list"]);
    let row = json!({
        "name": "b", "in_use": true, "url": servers[1].1.base, "has_token": false, "ca_file": null,
    });
    assert_eq!((rows.len(), &rows[1]), (3, &row));
    assert!(text(&shell.run(&["context", "remove", "b"]).stderr).contains("was in use"));
    assert_eq!(shell.lines(&["context", "list"]).len(), 2);
    shell.variables.pop();
    // The usual server is left, at a port where none of these listens.
    shell.fails(&["topics", "--context", "b"], 2, &["--context", "\"b\"", "are a, c"]);
    shell.fails(&["context", "use", "b"], 2, &["\"b\""]);
}

#[test]
fn the_token_of_a_context_is_private_and_stays_with_its_server() {
    let (shell, root) = (shell(), secret());
    let (_place, server) = logged(&bootstrap(&root));
    let add = ["context", "add", "ours", "--url", &server.base, "--token-file", "-"];
    assert!(shell.run_with_input(&add, &root).status.success());
    let file = shell.place.path().join("delay-queue/contexts.toml");
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = text(&shell.run(&["context", "list"]).stdout);
    assert!(listed.contains("\"has_token\":true") && !listed.contains("dq_"), "{listed}");

    assert!(shell.lines(&["token", "list", "--context", "ours"]).is_empty());
    shell.fails(&["topics"], 5, &["403"]);
    // With --url, the token of the context is not sent.
    shell.fails(&["topics", "--url", &server.base], 5, &["401"]);
    let token = ["topics", "--url", &server.base, "--token", &root];
    shell.fails(&token, 5, &["403"]);
}

#[test]
fn a_wrong_context_or_file_is_explained() {
    let mut shell = shell();
    let folder = shell.place.path().join("delay-queue");
    let add = ["context", "add", "a", "--url"];
    shell.fails(&[&add[..], &["ftp://here"]].concat(), 2, &["http://", "ftp://here"]);
    let wrong = [&add[..], &["http://here", "--token", "secret"]].concat();
    shell.fails(&wrong, 2, &["--token", "dq_"]);
    shell.fails(&["topics", "--context", "a"], 2, &["--context", "context add"]);
    let name = shell.run(&["context", "add", "a b", "--url", "http://here"]);
    assert_eq!(name.status.code(), Some(2));
    assert!(!folder.exists(), "a refused context was kept");

    fs::create_dir(folder).expect("a folder");
    shell.place.file("delay-queue/contexts.toml", "[contexts.a]\ntoken = \"dq_secret\"\n");
    let output = shell.run(&["topics"]);
    fails(&output, 2, &["contexts.toml", "`url`"]);
    assert!(!text(&output.stderr).contains("dq_secret"), "{output:?}");
    // Only commands that need a context read the file.
    shell.fails(&["topics", "--url", "http://127.0.0.1:1"], 4, &["failed to reach"]);
    shell.variables = vec![("HOME", String::new()), ("XDG_CONFIG_HOME", String::new())];
    shell.fails(&[&add[..], &["http://here"]].concat(), 2, &["HOME"]);
}
