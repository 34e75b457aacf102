//! Progress of a long command on standard error, about once a second.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub struct Progress {
    verb: &'static str,
    all: Option<u64>,
    last: Instant,
    terminal: bool,
    shown: bool,
}

impl Progress {
    pub fn new(verb: &'static str, all: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { verb, all, last: Instant::now(), terminal, shown: false }
    }

    /// Reports `done` jobs, if the last report is long enough ago.
    pub fn at(&mut self, done: u64) {
        if self.last.elapsed() < REPORT_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let all = self.all.map_or_else(String::new, |all| format!(" of {all}"));
        let line = format!("{} {done}{all} jobs", self.verb);
        if self.terminal {
            // Overwrites the previous line.
            eprint!("\r{line}\x1b[K");
            self.shown = true;
        } else {
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    /// Ends the line, so that further output begins on its own.
    fn drop(&mut self) {
        if self.shown {
            eprintln!();
        }
    }
}
