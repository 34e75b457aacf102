//! Frozen processes: neither dead nor alive to a client that waits for their answer.

use std::{fs, process::Command};

/// Process that was stopped. It goes on when this value is dropped, however its test ends.
pub struct Frozen(u32);

impl Frozen {
    /// Stops the process with this id, and waits until it has stopped.
    pub fn freeze(pid: u32) -> Self {
        let frozen = Self(pid);
        assert!(frozen.send("-STOP"), "the process {pid} is not ours");
        eventually_blocking!(frozen.stands_still(), "the process {pid} does not stand still");
        frozen
    }

    /// Lets the process go on. It must have been stopped until now.
    pub fn thaw(self) {
        assert!(self.stands_still(), "the process {} did not stand still", self.0);
    }

    /// Reports whether the kernel says that the process is stopped.
    fn stands_still(&self) -> bool {
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
