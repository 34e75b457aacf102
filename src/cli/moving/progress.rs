//! Progress of a long command on standard error, about once a second.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub struct Progress {
    verb: &'static str,
    total: Option<u64>,
    last: Instant,
    terminal: bool,
    shown: bool,
}

impl Progress {
    /// Starts the report of a command, such as `verb` "exported", on `total` jobs if known.
    pub fn new(verb: &'static str, total: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { verb, total, last: Instant::now(), terminal, shown: false }
    }

    /// Reports `done` jobs, at most once per [`REPORT_INTERVAL`].
    pub fn report(&mut self, done: u64) {
        if self.last.elapsed() < REPORT_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let of_total = self.total.map_or_else(String::new, |total| format!(" of {total}"));
        let line = format!("{} {done}{of_total} jobs", self.verb);
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
    /// Ends the line, so that further output begins on a new line.
    fn drop(&mut self) {
        if self.shown {
            eprintln!();
        }
    }
}
