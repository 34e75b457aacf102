//! The real binary as a separate process, and a small client for it.

use std::{
    ffi::OsString,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{free_port, patience::patience, signal::send_signal};

pub struct Process {
    child: Option<Child>,
    pub base: String,
    client: reqwest::Client,
}

/// Returns the path of the program under test: the value of `PROGRAM_UNDER_TEST`, or the program
/// that Cargo built with the tests.
fn delay_queue() -> OsString {
    std::env::var_os("PROGRAM_UNDER_TEST")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_delay-queue").into())
}

/// Returns a command for the program that runs in the folder `dir`.
pub fn program(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    // If this test process is killed, its servers are killed too.
    command.args(["--pdeathsig", "KILL"]).arg(delay_queue()).args(arguments);
    command.current_dir(dir).env_remove("DELAY_QUEUE__STORE__URL");
    // The contexts of the developer do not count.
    command.env("XDG_CONFIG_HOME", dir.join("no-contexts"));
    command
}

impl Process {
    /// Starts a server on a free port, and waits until it is ready.
    pub async fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_on_port(free_port(), dir, arguments).await
    }

    pub async fn start_on_port(port: u16, dir: &Path, arguments: &[&str]) -> Self {
        Self::spawn(port, program(dir, arguments)).await
    }

    pub async fn spawn(port: u16, mut command: Command) -> Self {
        command.stderr(Stdio::null());
        Self::spawn_with_log(port, command).await
    }

    /// Starts a server with a prepared command, which also determines the destination of the log.
    pub async fn spawn_with_log(port: u16, mut command: Command) -> Self {
        let address = format!("127.0.0.1:{port}");
        command.args(["--listen", address.as_str()]);
        let child = command.spawn().expect("the program runs");
        let base = format!("http://{address}");
        let mut process = Self { child: Some(child), base, client: crate::support::http::client() };
        let end = Instant::now() + patience();
        let is_ready = |answer: reqwest::Result<reqwest::Response>| {
            answer.is_ok_and(|answer| answer.status() == 200)
        };
        while !is_ready(process.client.get(format!("{}/readyz", process.base)).send().await) {
            let ended = process.child.as_mut().expect("the server was started").try_wait();
            assert!(matches!(ended, Ok(None)), "the server ended: {ended:?}");
            assert!(Instant::now() < end, "the server does not become ready");
            tokio::time::sleep(Duration::from_millis(5)).await; // no event reports that the server is ready
        }
        process
    }

    pub fn signal(&self, signal: &str) {
        send_signal(self.id(), signal);
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    pub fn wait(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("the server runs");
        child.wait().expect("the server ends").code()
    }

    /// Sends SIGTERM, and waits for the end, which must be a success.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        assert_eq!(tokio::task::block_in_place(|| self.wait()), Some(0));
    }

    pub fn kill(&mut self) {
        self.signal("-KILL");
        self.wait();
    }

    /// Returns whether the server has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| {
            child.try_wait().expect("the process is a child of this test").is_some()
        })
    }

    pub fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A panic here would hide the panic that made the test fail.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a POST. Returns the status and the JSON, or `None` without an answer.
    pub async fn post(&self, path: &str, body: Value) -> Option<(u16, Value)> {
        let request = self.client.post(format!("{}{path}", self.base)).body(body.to_string());
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let text = answer.text().await.ok()?;
        Some((status, serde_json::from_str(&text).unwrap_or_default()))
    }

    /// Sends a POST that must succeed. Returns the JSON.
    pub async fn post_ok(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, body).await.expect("an answer");
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Puts a job, which must be a new one.
    pub async fn put_job(&self, job: Value) {
        let (status, answer) = self.post("/jobs", job).await.expect("an answer");
        assert_eq!(status, 201, "{answer}");
    }

    /// Returns the address of the server, as in `--listen`.
    pub fn address(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    /// Sends a PUT. Returns the status, or `None` without an answer.
    pub async fn put(&self, path: &str, body: Value) -> Option<u16> {
        let request = self.client.put(format!("{}{path}", self.base)).body(body.to_string());
        Some(request.send().await.ok()?.status().as_u16())
    }

    /// Sends a DELETE. Returns the status, or `None` without an answer.
    pub async fn delete(&self, path: &str) -> Option<u16> {
        let answer = self.client.delete(format!("{}{path}", self.base)).send().await.ok()?;
        Some(answer.status().as_u16())
    }

    /// Sends a GET that must succeed. Returns the text.
    pub async fn text(&self, path: &str) -> String {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.expect("answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.text().await.expect("text")
    }

    /// Sends a GET that must succeed. Returns the JSON.
    pub async fn get_ok(&self, path: &str) -> Value {
        let (status, answer) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.expect("answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("JSON"))
    }
}

/// Counts the sockets that a process has open.
pub fn sockets(process: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// Returns the resident memory of a process in MiB.
pub fn resident_of(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") >> 10
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
