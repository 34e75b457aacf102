//! What an examination of a store has found, as `delay-queue doctor` prints it.

use std::fmt::{Display, Write as _};

use super::Counts;

/// What was found, line by line.
#[derive(Debug, Default)]
pub struct Report {
    /// What is printed.
    pub text: String,
    /// What must be mended.
    pub problems: Vec<String>,
}

impl Report {
    /// Adds a line.
    pub fn line(&mut self, name: &str, what: impl Display) {
        let _ = writeln!(self.text, "{name:<12}{what}"); // a String takes everything
    }

    /// Adds advice and problems, which come last.
    pub fn end(mut self, advice: &[String], problems: Vec<String>) -> Self {
        for advice in advice {
            self.line("advice", advice);
        }
        for problem in &problems {
            self.line("to mend", problem);
        }
        if problems.is_empty() {
            self.line("to mend", "nothing");
        }
        self.problems = problems;
        self
    }

    /// Adds a line of counts.
    pub fn jobs(&mut self, counts: Counts) {
        self.line("jobs", shown(counts));
    }
}

/// Counts in words.
pub fn shown(counts: Counts) -> String {
    let Counts { delayed, ready, reserved, dead } = counts;
    format!("{delayed} delayed, {ready} ready, {reserved} reserved, {dead} dead")
}
