//! Report of an examination of a store, as `delay-queue doctor` prints it.

use std::fmt::{Display, Write as _};

use super::{Counts, StoredSchedule};
use crate::job::{State, UnixMillis};

/// Reads a schedule for an examination: returns when a server must look at it, `None` for never, or
/// why it cannot be read. Stores do not interpret schedules themselves.
pub type ScheduleReader = fn(&StoredSchedule) -> Result<Option<UnixMillis>, String>;

/// Report of an examination.
#[derive(Debug, Default)]
pub struct Report {
    /// Text to print, one line per finding.
    pub text: String,
    /// Faults that must be repaired.
    pub problems: Vec<String>,
}

impl Report {
    /// Adds a line with a name in its first column.
    pub fn line(&mut self, name: &str, text: impl Display) {
        let _ = writeln!(self.text, "{name:<12}{text}"); // never fails for a String
    }

    /// Adds the last lines, advice and problems, and keeps the problems.
    pub fn end(mut self, advice: &[String], problems: Vec<String>) -> Self {
        for advice in advice {
            self.line("advice", advice);
        }
        for problem in &problems {
            self.line("to repair", problem);
        }
        if problems.is_empty() {
            self.line("to repair", "nothing");
        }
        self.problems = problems;
        self
    }

    /// Adds a line with the counts of jobs.
    pub fn jobs(&mut self, counts: Counts) {
        self.line("jobs", shown(counts));
    }
}

/// Returns the problem of a schedule that cannot be read.
pub fn unreadable_schedule(name: &str, reason: &str) -> String {
    format!(
        "the schedule {name:?} cannot be read ({reason}): set it again, or update delay-queue if a later \
         version wrote it"
    )
}

/// Formats counts as words.
pub fn shown(counts: Counts) -> String {
    let each = State::ALL.map(|state| format!("{} {}", counts.of(state), state.name()));
    each.join(", ")
}
