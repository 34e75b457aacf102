//! `delay-queue dev`, `demo` and `completions`.

use crate::start::prelude::*;

/// A running throw-away server, and a shell with the variables that it printed.
struct ThrowAway {
    process: Killed,
    shell: Shell,
}

impl ThrowAway {
    /// Starts the server with `tmp` in this folder for temporary folders.
    fn start(place: &WorkDir, arguments: &[&str], variables: usize) -> Self {
        let mut command = program(place.path(), arguments);
        command.env("TMPDIR", place.path().join("tmp"));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let printed = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut shell = Shell { place: place.clone(), variables: Vec::new() };
        for line in printed.lines().take(variables) {
            let line = line.expect("text");
            let (name, value) = line.split_once('=').expect("a variable");
            let name = match name {
                "export DELAY_QUEUE_URL" => "DELAY_QUEUE_URL",
                "export DELAY_QUEUE_TOKEN" => "DELAY_QUEUE_TOKEN",
                other => panic!("{other}"),
            };
            shell.variables.push((name, value.to_owned()));
        }
        Self { process: Killed(child), shell }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect()
}

#[test]
fn a_throw_away_server_requires_its_token_and_leaves_no_file() {
    let place = WorkDir::new();
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let mut killed = ThrowAway::start(&place, &["dev"], 2);
    killed.shell.one(&["put", "t", "--id", "a"]);
    killed.process.end_by("-KILL");
    assert_eq!(names(&temporary).len(), 1);

    let mut dev = ThrowAway::start(&place, &["dev"], 2);
    dev.shell.one(&["put", "t", "--id", "a"]);
    assert_eq!(dev.shell.one(&["pop", "t"])["id"], "a");
    let without = Shell::new(&dev.shell.variables[0].1);
    without.fails(&["topics"], 5, &["401"]);
    assert_eq!(names(&temporary).len(), 1, "the folder of the killed server is left");
    assert_eq!(dev.process.end_by("-TERM"), Some(0));
    assert_eq!(names(&temporary), [""; 0], "a folder is left");
    assert_eq!(names(place.path()), ["tmp"]);
}

#[test]
fn throw_away_servers_have_their_own_store() {
    let shell = Shell::new("");
    shell.fails(&["dev", "--store", "file:data"], 2, &["--store"]);
    shell.fails(&["demo", "--check-config"], 2, &["--check-config"]);
}

#[test]
fn the_demo_closes_orders_sends_webhooks_and_plans_reminders() {
    let place = WorkDir::new();
    fs::create_dir(place.path().join("tmp")).expect("a folder");
    let mut demo = ThrowAway::start(&place, &["demo", "--listen", "127.0.0.1:0"], 1);
    let shell = &demo.shell;
    let topics = || shell.lines(&["topics"]);
    let is = |topic: &Value, name: &str, state: &str| {
        topic["topic"] == name && topic[state].as_u64().is_some_and(|count| count > 0)
    };
    for (name, state) in [
        ("shop.orders", "delayed"),
        ("shop.orders", "finished"),
        ("shop.webhooks", "finished"),
        ("shop.reminders", "delayed"),
    ] {
        let has = || topics().iter().any(|topic| is(topic, name, state));
        eventually_blocking!(has(), "no {state} job of {name}: {:?}", topics());
    }
    // The first order has no customer.
    let first = || shell.one(&["get", "close:1000"])["history"].to_string();
    eventually_blocking!(first().contains("no customer"), "no order fails: {}", first());
    assert_eq!(demo.process.end_by("-INT"), Some(0));
    assert_eq!(names(&place.path().join("tmp")), [""; 0], "a folder is left");
}

#[test]
fn completions_contain_all_commands() {
    let shell = Shell::new("");
    for name in ["bash", "zsh", "fish"] {
        let output = shell.run(&["completions", name]);
        let script = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        for word in ["work", "purge", "doctor", "on-conflict"] {
            assert!(script.contains(word), "{name} has no {word}");
        }
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let shell = Shell::new("");
    assert!(shell.lines(&["man", "man1"]).is_empty());
    let place = shell.place.path();
    let pages = names(&place.join("man1"));
    for page in ["delay-queue.1", "delay-queue-work.1", "delay-queue-push-set.1"] {
        assert!(pages.iter().any(|name| name == page), "no {page} in {pages:?}");
    }
    let page = fs::read_to_string(place.join("man1/delay-queue-put.1")).expect("text");
    assert!(page.contains("on\\-conflict") && page.contains("Exit codes"), "{page}");
    shell.place.file("file", "");
    shell.fails(&["man", "file"], 1, &["failed to write manual pages to file"]);
}
