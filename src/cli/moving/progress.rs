//! How far a long work is, about once a second, on standard error.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub struct Progress {
    /// What is being done to jobs.
    verb: &'static str,
    /// How many there are, if that is known.
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

    /// So many are done.
    pub fn at(&mut self, done: u64) {
        if self.last.elapsed() < REPORT_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let all = self.all.map_or_else(String::new, |all| format!(" of {all}"));
        let line = format!("{} {done}{all} jobs", self.verb);
        if self.terminal {
            // Over the line before.
            eprint!("\r{line}\x1b[K");
            self.shown = true;
        } else {
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    /// What is said next begins in a line of its own.
    fn drop(&mut self) {
        if self.shown {
            eprintln!();
        }
    }
}
