//! Signals to processes. Frozen processes keep their connections open but do not answer.

use std::{
    fs,
    process::{Child, Command},
};

use crate::support::resp::ask;

/// Sends a signal, such as `-TERM`, to a running process.
pub fn send_signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// A process that is killed when this value is dropped.
pub struct Killed(pub Child);

impl Killed {
    /// Sends a signal, and waits for the end. Returns the exit code.
    pub fn end_by(&mut self, signal: &str) -> Option<i32> {
        send_signal(self.0.id(), signal);
        self.0.wait().expect("the process ends").code()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Ignores errors, since the process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops the Redis on this port.
pub fn freeze(port: u16) -> Frozen {
    let info = ask(port, &["INFO", "server"]).expect("an answer");
    let pid = info.text().lines().find_map(|line| line.strip_prefix("process_id:"));
    Frozen::freeze(pid.and_then(|pid| pid.parse().ok()).expect("a process id"))
}

/// A stopped process. It continues when this value is dropped, even by a panic.
pub struct Frozen(u32);

impl Frozen {
    /// Stops the process with this id, and waits until it has stopped.
    pub fn freeze(pid: u32) -> Self {
        let frozen = Self(pid);
        assert!(frozen.send("-STOP"), "the process {pid} is no child of this test");
        eventually_blocking!(frozen.is_stopped(), "the process {pid} has not stopped");
        frozen
    }

    /// Continues the process. Panics if another signal has continued it before.
    pub fn thaw(self) {
        assert!(self.is_stopped(), "the process {} was not stopped until now", self.0);
    }

    /// Returns whether the kernel reports that the process is stopped.
    fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        // `<id> (<name>) <state> …`; names may have spaces and parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    fn send(&self, signal: &str) -> bool {
        let sent = Command::new("kill").args([signal, &self.0.to_string()]).status();
        sent.is_ok_and(|status| status.success())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.send("-CONT");
    }
}
