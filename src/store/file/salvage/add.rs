//! Adds a job with its attempt, as far as the attempt can be trusted.

use sqlite_salvage::Cell;

use super::{Attempts, Popped, Reader, rows::Found};
use crate::{
    job::{History, Outcome, State, UnixMillis},
    store::file::{
        index::Attempt,
        machine::{ErrorText, HistoryChange, Write},
        records::{AttemptRow, attempt, parse_ending},
    },
};

/// Uncertainty about a job.
pub struct Doubt {
    /// Whether the job may have been changed or deleted after its row was written.
    pub is_unsure: bool,
    /// Whether the job was finished after its row was written.
    pub is_finished: bool,
    pub now: UnixMillis,
}

impl Attempts {
    /// Returns the attempt of the job with this serial number.
    fn of(&self, serial: i64) -> Option<Popped> {
        self.rows.get(&serial).cloned().or_else(|| {
            // A row with a damaged serial number belongs to the job with whose number its checksum
            // is right.
            self.damaged.iter().find_map(|(_, row)| {
                let (row, checksum) = row.as_ref()?;
                let own = AttemptRow { serial, ..*row };
                let (state, at, attempt) = attempt(&own).filter(|_| own.checksum() == *checksum)?;
                Some((attempt, state, at, (None, History::default())))
            })
        })
    }

    /// Returns whether the job may have a row that cannot be read. A job that is not due yet was
    /// never popped.
    fn may_lack(&self, serial: i64, is_due: bool) -> bool {
        let in_gap = || self.gaps.iter().any(|(low, high)| *low < serial && serial <= *high);
        self.damaged.iter().any(|(number, _)| *number == serial) || is_due && in_gap()
    }
}

impl Reader {
    pub fn add(
        &mut self,
        cell: &Cell,
        found: Found,
        attempts: &Attempts,
        doubt: Doubt,
        writes: &mut Vec<Write>,
    ) {
        let serial = cell.serial.cast_unsigned();
        let Found { job, created_at, due_at, .. } = found;
        let Doubt { is_unsure, is_finished, now } = doubt;
        let unknown = Attempt { number: 1, died_at: now, ..Attempt::none(due_at, job.policy.ttr) };
        let (ending, forgotten_at) =
            (parse_ending(&job.body), now.after(job.policy.finished_retention));
        writes.push(Write::Insert { serial, job, created_at, due_at });
        let own = attempts.of(cell.serial);
        let by_attempt = own.as_ref().is_some_and(|(_, state, _, _)| *state == State::Finished);
        if is_finished || ending.is_some() != by_attempt || is_unsure && by_attempt {
            // One row of the job is lost or old. So no row may make the job run again.
            self.found.uncertain += 1;
            let (outcome, result) = ending.unwrap_or((Outcome::ResultDropped, None));
            let (attempt, at, past) = match own {
                Some((attempt, State::Finished, at, (_, past))) => (attempt, at, past),
                Some((attempt, _, _, (_, past))) => {
                    (Attempt { died_at: now, ..attempt }, forgotten_at, past)
                }
                None => (unknown, forgotten_at, History::default()),
            };
            let (retention, history) = (None, HistoryChange::restore(past));
            writes.push(Write::Finish { serial, at, attempt, outcome, result, retention, history });
            return;
        }
        match own {
            Some((attempt, state, at, (error, past))) if !is_unsure => {
                self.found.jobs += 1;
                let (error, history) = (ErrorText::Set(error), HistoryChange::restore(past));
                writes.push(Write::Attempt { serial, state, at, attempt, error, history });
            }
            None if !is_unsure && !attempts.may_lack(cell.serial, due_at <= now) => {
                self.found.jobs += 1;
            }
            _ => {
                self.found.uncertain += 1;
                let error = "its record, its last error or its history was damaged".to_owned();
                writes.push(Write::Attempt {
                    serial,
                    state: State::Dead,
                    at: UnixMillis::NEVER,
                    attempt: unknown,
                    error: ErrorText::Set(Some(error)),
                    history: HistoryChange::default(),
                });
            }
        }
    }
}
