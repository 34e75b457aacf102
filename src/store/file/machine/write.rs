//! Changes on disk as values.

use bytes::Bytes;

use super::history::HistoryChange;
use crate::{
    job::{
        Change, Millis, NewJob, Outcome, PolicyFields, ScheduleName, Setting, State, Topic,
        UnixMillis,
    },
    store::{NewSchedule, TokenChange, file::index::Attempt},
};

/// A change that a transition makes on disk; changes are applied in order.
#[derive(Debug, PartialEq)]
pub enum Write {
    /// Adds a record.
    Insert { serial: u64, job: NewJob, created_at: UnixMillis, due_at: UnixMillis },
    /// Changes the due time of a job that was never popped.
    Due { serial: u64, due_at: UnixMillis },
    /// Changes the policy or body of a record.
    Change { serial: u64, change: Change },
    /// Moves a job to another topic.
    Move { serial: u64, topic: Topic, due_at: UnixMillis, policy: PolicyFields },
    /// Writes the attempt of a popped job.
    Attempt {
        serial: u64,
        state: State,
        at: UnixMillis,
        attempt: Attempt,
        error: ErrorText,
        history: HistoryChange,
    },
    /// Deletes the attempt of a job.
    NoAttempt { serial: u64 },
    /// Deletes a job.
    Delete { serial: u64 },
    /// Ends a job that is kept until `at`: its result takes the place of its body.
    Finish {
        serial: u64,
        at: UnixMillis,
        /// The last attempt. Its `died_at` is the time at which the job ended. Its number is 0 if
        /// the job was never popped.
        attempt: Attempt,
        outcome: Outcome,
        result: Option<Bytes>,
        /// How long the job is kept; `None` means as long as its policy says.
        retention: Option<Millis>,
        history: HistoryChange,
    },
    /// Quarantines a damaged job: its rows are never written again.
    Quarantine { serial: u64, fate: Fate },
    /// Sets or removes a setting of a topic.
    Setting(Setting),
    /// Sets or removes a schedule.
    Schedule { name: ScheduleName, new: Option<NewSchedule> },
    /// Creates or revokes an access token.
    Token(TokenChange),
    /// Records the last uses of access tokens, by their names.
    TokenUses(Vec<(String, UnixMillis)>),
    /// Records until when deaths and ended TTRs were counted.
    Counted(UnixMillis),
}

impl Write {
    /// Drops the text that needs room: an error, a result, or an entry of the history.
    pub fn drop_text(&mut self) {
        if let Self::Attempt { history, .. } | Self::Finish { history, .. } = self {
            *history = HistoryChange::default();
        }
        match self {
            Self::Attempt { error: ErrorText::Set(text), .. } => *text = None,
            Self::Finish { outcome, result: result @ Some(_), .. } => {
                (*outcome, *result) = (Outcome::ResultDropped, None);
            }
            _ => {}
        }
    }

    /// Returns the fate of the written job if it must be quarantined instead.
    pub fn fate(&self) -> Fate {
        match self {
            Self::Delete { .. } => Fate::Gone,
            Self::Finish { .. } => Fate::Finished,
            Self::Quarantine { fate, .. } => *fate,
            _ => Fate::Dead,
        }
    }

    /// Returns the serial number of the job whose rows this writes.
    pub fn serial(&self) -> Option<u64> {
        match self {
            Self::Insert { serial, .. } => Some(*serial),
            _ => self.changes(),
        }
    }

    /// Returns the serial number of the job whose existing rows this changes.
    pub fn changes(&self) -> Option<u64> {
        match self {
            Self::Due { serial, .. }
            | Self::Change { serial, .. }
            | Self::Move { serial, .. }
            | Self::Attempt { serial, .. }
            | Self::NoAttempt { serial }
            | Self::Delete { serial }
            | Self::Finish { serial, .. }
            | Self::Quarantine { serial, .. } => Some(*serial),
            Self::Insert { .. }
            | Self::Setting(_)
            | Self::Schedule { .. }
            | Self::Token(_)
            | Self::TokenUses(_)
            | Self::Counted(_) => None,
        }
    }
}

/// Change of the error text on disk.
#[derive(Debug, PartialEq)]
pub enum ErrorText {
    Keep,
    Set(Option<String>),
}

/// Fate of a quarantined job. It only changes from an earlier variant to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The job is kept as dead.
    Dead,
    /// The job was finished, or deleted and remembered: its id stays taken.
    Finished,
    /// The job was finished or deleted.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_result_shows_in_the_outcome() {
        let finish = |outcome, result: Option<&'static str>| Write::Finish {
            serial: 1,
            at: UnixMillis::new(2),
            attempt: Attempt {
                number: 1,
                died_at: UnixMillis::new(1),
                ..Attempt::none(UnixMillis::new(0), Millis::new(1))
            },
            outcome,
            result: result.map(Bytes::from),
            retention: None,
            history: HistoryChange::default(),
        };
        for (outcome, result, left) in [
            (Outcome::Finished, Some("1"), Outcome::ResultDropped),
            (Outcome::Finished, None, Outcome::Finished),
            (Outcome::Deleted, None, Outcome::Deleted),
        ] {
            let mut write = finish(outcome, result);
            write.drop_text();
            assert_eq!(write, finish(left, None));
        }
    }
}
