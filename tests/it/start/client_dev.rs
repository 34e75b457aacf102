//! `delay-queue dev` and `completions`.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::{
    start::{
        client::Shell,
        outputs::{WorkDir, text},
    },
    support::process::program,
};

#[test]
fn a_throw_away_server_prints_its_url_and_leaves_nothing_behind() {
    let place = WorkDir::new();
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let mut dev = program(place.path(), &["dev"]);
    let dev = dev.env("TMPDIR", &temporary).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut dev = dev.expect("the program runs");
    let mut url = String::new();
    let mut printed = BufReader::new(dev.stdout.take().expect("a pipe"));
    printed.read_line(&mut url).expect("a line");
    let shell = Shell::new(&place, url.trim());
    shell.one(&["put", "t", "--id", "a"]);
    assert_eq!(shell.one(&["pop", "t"])["id"], "a");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 1);
    let sent = Command::new("kill").arg(dev.id().to_string()).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(dev.wait().expect("it ends").code(), Some(0));
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "a folder is left");
    let left = fs::read_dir(place.path()).expect("a folder");
    let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["tmp"]);
}

#[test]
fn completions_contain_all_commands() {
    let place = WorkDir::new();
    let shell = Shell::new(&place, "");
    for name in ["bash", "zsh", "fish"] {
        let output = shell.run(&["completions", name]);
        let script = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        for word in ["work", "purge", "doctor", "on-conflict"] {
            assert!(script.contains(word), "{name} has no {word}");
        }
    }
}
