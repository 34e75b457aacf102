//! Changes of a job's history. Only the disk has histories, so each written row carries the change
//! that the transition makes.

use crate::job::{AttemptOutcome, Consumer, History, UnixMillis};

/// Change of a history. `records/past.rs` applies it to the row on disk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryChange {
    /// Whether the TTR of the attempt on disk had ended before the step.
    pub timed_out: bool,
    pub step: HistoryStep,
}

/// A step of a transition that the job's history records.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum HistoryStep {
    #[default]
    Stay,
    /// A consumer with a name popped the job.
    Hold(Consumer),
    /// The TTR of the running attempt is extended.
    Touch,
    /// The attempt ended. Replaces the entry of its ended TTR, if there is one.
    End { outcome: AttemptOutcome, at: UnixMillis },
    /// The job comes from another store.
    Restore(History),
}

impl HistoryChange {
    /// Returns a change without an ended TTR.
    pub fn step(step: HistoryStep) -> Self {
        Self { timed_out: false, step }
    }

    /// Returns the change of a job from another store.
    pub fn restore(history: History) -> Self {
        match history.is_empty() {
            true => Self::default(),
            false => Self::step(HistoryStep::Restore(history)),
        }
    }

    /// Returns the end of an attempt, whose TTR may have ended.
    pub fn end(timed_out: bool, outcome: AttemptOutcome, at: UnixMillis) -> Self {
        Self { timed_out, step: HistoryStep::End { outcome, at } }
    }

    pub fn is_none(&self) -> bool {
        !self.timed_out && self.step == HistoryStep::Stay
    }
}
