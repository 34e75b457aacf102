//! `delay-queue top` in a real terminal, which `script` of util-linux provides.

use crate::start::prelude::*;

/// Leaves the alternate screen.
const RESTORED: &str = "\x1b[?1049l";

/// A view in a terminal whose output is in a file.
struct View {
    script: Killed,
    file: PathBuf,
}

impl View {
    fn start(shell: &Shell, (columns, rows): (u16, u16)) -> Self {
        let top = shell.command(&["top", "--interval", "500ms"]);
        let words = [top.get_program()].into_iter().chain(top.get_args());
        let words: Vec<String> = words.map(|word| word.display().to_string()).collect();
        let line = format!(
            "echo $$ > pid; stty cols {columns} rows {rows}; exec {}",
            words[3..].join(" ") // without setpriv, so that the process is that of the shell
        );
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "screen"]).current_dir(shell.place.path());
        for (name, value) in top.get_envs() {
            script.env(name, value.unwrap_or_default());
        }
        script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::null());
        let script = script.spawn().expect("script of util-linux is installed");
        Self { script: Killed(script), file: shell.place.path().join("screen") }
    }

    fn screen(&self) -> String {
        let bytes = fs::read(&self.file).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        eventually_blocking!(self.screen().contains(text), "no {text:?}: {:?}", self.screen());
    }

    /// Returns the exit code of the view.
    fn ended(mut self) -> Option<i32> {
        let code = self.script.0.wait().expect("it ends").code();
        assert!(self.screen().contains(RESTORED), "the terminal was not restored");
        code
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_waits_for_a_server_and_restores_the_terminal() {
    let port = free_port();
    let shell = Shell::new(&format!("http://127.0.0.1:{port}"));
    let mut server = Process::start_on_port(port, shell.place.path(), &[]).await;
    shell.one(&["put", "orders", "--delay", "1h"]);
    let mut view = View::start(&shell, (40, 24));
    view.wait_for("orders");
    server.kill();
    view.wait_for("away");
    let _server = Process::start_on_port(port, shell.place.path(), &[]).await;
    shell.one(&["put", "mail", "--delay", "1h"]);
    view.wait_for("mail");
    view.script.0.stdin.as_mut().expect("a pipe").write_all(b"q").expect("written");
    assert_eq!(view.ended(), Some(0));
}

#[test]
fn the_view_shows_more_topics_than_the_overview_lists() {
    let (_server, shell) = Shell::served("");
    let puts = (1..=30).map(|n| format!("{{\"topic\":\"many-{n:02}\",\"delay\":\"1h\"}}\n"));
    let puts = shell.place.file("puts.jsonl", &puts.collect::<String>());
    assert!(shell.run(&["put", "--jsonl", &puts]).status.success());
    let view = View::start(&shell, (100, 60));
    for n in 1..=30 {
        view.wait_for(&format!("many-{n:02}"));
    }
}

#[test]
fn a_signal_ends_the_view_and_restores_the_terminal() {
    let (_server, shell) = Shell::served("");
    shell.one(&["put", "orders"]);
    let view = View::start(&shell, (100, 24));
    view.wait_for("orders");
    let pid = fs::read_to_string(shell.place.path().join("pid")).expect("a number");
    send_signal(pid.trim().parse().expect("a number"), "-TERM");
    assert_eq!(view.ended(), Some(0));
}

#[test]
fn a_view_without_a_terminal_a_server_or_a_right_is_refused() {
    let shell = Shell::new("http://127.0.0.1:1");
    shell.fails(&["top"], 2, &["top needs a terminal", "delay-queue topics"]);
    let view = shell.run(&["top", "--interval", "1ms"]);
    assert_eq!(view.status.code(), Some(2));
}
