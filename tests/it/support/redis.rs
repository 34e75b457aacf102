//! Real Redis processes for tests, each on its own free port of loopback and with its AOF in its
//! own folder. Each process is stopped by its id when its test ends, even by a panic.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

pub struct Redis {
    pub child: Option<Child>,
    port: u16,
    pub dir: TempDir,
    arguments: Vec<String>,
    /// Environment variables of the process, used from the next start on.
    pub variables: Vec<(&'static str, PathBuf)>,
}

impl Redis {
    /// Starts a Redis with the settings that a queue needs.
    ///
    /// # Panics
    /// If there is no redis-server: `./tests/setup` installs it.
    pub fn start() -> Self {
        Self::with(&["--appendonly", "yes"])
    }

    pub fn with(arguments: &[&str]) -> Self {
        Self::with_variables(arguments, Vec::new())
    }

    /// Starts a Redis with additional arguments and environment variables.
    pub fn with_variables(arguments: &[&str], variables: Vec<(&'static str, PathBuf)>) -> Self {
        let mut redis = Self::later(arguments);
        redis.variables = variables;
        redis.resume();
        redis
    }

    /// Prepares a Redis without starting it.
    pub fn later(arguments: &[&str]) -> Self {
        Self {
            child: None,
            port: free_port(),
            dir: tempfile::tempdir().expect("a temporary folder"),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            variables: Vec::new(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
    }

    /// Returns the port, which stays the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills Redis as `kill -9` does; its files stay.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill works on a child, even if it has ended");
            child.wait().expect("it was killed");
        }
    }

    /// Starts Redis again on the same port and files, and waits until it answers.
    pub fn resume(&mut self) {
        self.begin();
        // benches/micro.rs includes this file too, without `patience`.
        let end = Instant::now() + Duration::from_secs(60);
        while !self.command("PING").is_some_and(|answer| answer.starts_with("+PONG")) {
            assert!(Instant::now() < end, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(10)); // no event reports that Redis is ready
        }
    }

    pub fn begin(&mut self) {
        let mut command = redis_server();
        command.args(["--bind", "127.0.0.1", "--save", ""]);
        command.args(["--port", &self.port.to_string(), "--dir"]).arg(self.dir.path());
        command.envs(self.variables.iter().cloned());
        let child = command.args(&self.arguments).spawn();
        self.child = Some(child.expect("redis-server is missing: install it with ./tests/setup"));
    }

    /// Sends an inline command, and returns the raw beginning of the answer.
    pub fn command(&self, line: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
        let mut answer = vec![0; 16 * 1024];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the command of `redis-server`, or of the program that `REDIS_SERVER` names (another
/// version, or Valkey).
pub fn redis_server() -> Command {
    let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let mut command = Command::new("setpriv");
    // setpriv: if this test process is killed, its Redis is killed too.
    command.args(["--pdeathsig", "KILL", &server]);
    // Another locale than C proves that the scripts do not depend on the order of bytes.
    command.env("LC_ALL", "en_US.UTF-8").stdout(Stdio::null());
    command
}

/// Returns a port on which no server listens. It is below the ports of outgoing connections, so
/// that none of them takes the port while a process is restarted.
pub fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const PORTS: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent test processes begin at different ports.
    let start = std::process::id().wrapping_mul(7_919) % u32::from(PORTS);
    (0..PORTS)
        .map(|_| u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + start)
        .map(|n| FIRST + u16::try_from(n % u32::from(PORTS)).expect("a remainder below 20,000"))
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a free port")
}
