//! A server that listens on a Unix socket.

use std::os::unix::{fs::FileTypeExt, net::UnixListener};

use crate::start::prelude::*;

const SOCKET: &str = "unix:dq.sock";

fn start(place: &WorkDir, store: &str, arguments: &[&str]) -> Killed {
    let all = [&["--listen", SOCKET, "--store", store], arguments].concat();
    let mut command = program(place.path(), &all);
    let server = Killed(command.stderr(Stdio::null()).spawn().expect("the program runs"));
    eventually_blocking!(is_alive(place), "the server does not answer");
    server
}

fn is_alive(place: &WorkDir) -> bool {
    output(place.path(), &["--listen", SOCKET, "health"]).status.success()
}

fn refused(place: &WorkDir, words: &[&str]) {
    let output = output(place.path(), &["--listen", SOCKET]);
    one_line(&output, &[&["failed to listen on unix:dq.sock (server.listen)"], words].concat());
}

#[test]
fn a_unix_socket_has_its_mode_and_is_removed_at_the_end() {
    let place = WorkDir::new();
    let socket = place.path().join("dq.sock");
    let file = place.file("mode.toml", "[server]\nunix_socket_mode = \"0600\"\n");
    for (arguments, mode) in [(&["--config", &file][..], 0o600), (&[], 0o660)] {
        let mut server = start(&place, "file:./data", arguments);
        let found = fs::metadata(&socket).expect("the socket exists");
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o7777, mode);
        assert_eq!(server.end_by("-TERM"), Some(0));
        assert!(!socket.exists(), "the server has left its socket file");
    }
}

#[test]
fn only_an_abandoned_socket_is_replaced() {
    let place = WorkDir::new();
    let socket = place.path().join("dq.sock");
    let mut first = start(&place, "file:./data", &[]);
    refused(&place, &["another server is listening"]);
    assert!(is_alive(&place), "the first server does not answer");
    // A killed server leaves its socket file, which the next server replaces.
    first.end_by("-KILL");
    assert!(socket.exists());
    let mut second = start(&place, "file:./data", &[]);
    // The server must not replace a file of another program.
    fs::remove_file(&socket).expect("removed");
    let _other = UnixListener::bind(&socket).expect("bound");
    assert_eq!(second.end_by("-TERM"), Some(0));
    assert!(socket.exists());

    fs::remove_file(&socket).expect("removed");
    fs::write(&socket, "mine").expect("written");
    refused(&place, &["there is a file that is not a socket"]);
    assert_eq!(fs::read_to_string(&socket).expect("text"), "mine");
    fs::remove_file(&socket).expect("removed");
    std::os::unix::fs::symlink(Path::new("elsewhere"), &socket).expect("a link");
    refused(&place, &["there is a file that is not a socket"]);
}
