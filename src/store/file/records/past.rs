//! The last error and the history of a job, which are only on disk.
//!
//! Both are in the column `error`, so that a job without a history takes no room for it, and a
//! write that keeps the column keeps both. A plain text is only the error. With a history, the
//! column is `<XXH3 of the history, 8 hexadecimal digits> <length of the history> <history>`,
//! followed by `=` and the error if there is one. Then `error_checksum` is the checksum of the
//! error plus [`WITH_HISTORY`], a sum that no other checksum reaches. A damaged history is left
//! out. A damaged error, length or `=` makes the job damaged.
//! Persisted: must stay stable.

use memchr::memmem;
use rusqlite::{OptionalExtension, types::ValueRef};

use super::{
    Records, damage,
    read::ReadError,
    row::{AttemptRow, text_checksum},
};
use crate::{
    job::{AttemptOutcome, History, Hold, PastAttempt, Running, State, UnixMillis, cut_error},
    store::file::{
        index::Attempt,
        machine::{ErrorText, HistoryChange, HistoryStep, Write},
    },
};

/// Value added to the checksum of an error that follows a history.
const WITH_HISTORY: i64 = 1 << 32;

/// Row of a popped job, with the data that is only on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorAndHistory {
    /// The running attempt, from the file or from an earlier write of the batch.
    held: Option<Held>,
    pub error: Option<String>,
    pub history: History,
}

/// A running attempt on disk. Its TTR may have ended, because promotions are not written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    number: u32,
    running: Running,
}

impl Held {
    fn new(state: State, at: UnixMillis, attempt: &Attempt) -> Option<Self> {
        let Attempt { number, reservation, ttr, .. } = *attempt;
        let running = Running { reservation, until: at, ttr };
        (state == State::Reserved).then_some(Self { number, running })
    }
}

/// Parses the columns `error` and `error_checksum`; fails if the error is damaged.
pub fn parse(text: Option<&[u8]>, checksum: i64) -> Result<(Option<String>, History), ()> {
    let has_history = checksum >= WITH_HISTORY / 2;
    let (history, error) = match text {
        Some(text) if has_history => divided(text).ok_or(())?,
        text => (History::default(), text),
    };
    let error = error.map(str::from_utf8).transpose().map_err(|_| ())?;
    let expected = if has_history { checksum - WITH_HISTORY } else { checksum };
    match text_checksum(error) == expected {
        true => Ok((error.map(str::to_owned), history)),
        false => Err(()),
    }
}

/// Splits a text into its history and its error.
fn divided(text: &[u8]) -> Option<(History, Option<&[u8]>)> {
    let mut fields = text.splitn(3, |&byte| byte == b' ');
    let (sum, length, rest) = (fields.next()?, fields.next()?, fields.next()?);
    let length = str::from_utf8(length).ok()?.parse().ok()?;
    let (history, rest) = rest.split_at_checked(length)?;
    let error = match rest {
        [] => None,
        rest => Some(rest.strip_prefix(b"=")?),
    };
    let sound = str::from_utf8(history).ok().filter(|text| sum == history_sum(text).as_bytes());
    let history = sound.and_then(History::parse).unwrap_or_else(|| {
        tracing::warn!("left out a damaged history");
        History::default()
    });
    Some((history, error))
}

fn history_sum(history: &str) -> String {
    format!("{:08x}", text_checksum(Some(history)) & 0xffff_ffff)
}

/// Formats the columns `error` and `error_checksum`.
pub fn columns(error: Option<&str>, history: &History) -> (Option<String>, i64) {
    let checksum = text_checksum(error);
    if history.is_empty() {
        return (error.map(str::to_owned), checksum);
    }
    let text = history.to_string();
    let mut whole = format!("{} {} {text}", history_sum(&text), text.len());
    if let Some(error) = error {
        whole.push('=');
        whole.push_str(error);
    }
    (Some(whole), checksum + WITH_HISTORY)
}

impl ErrorAndHistory {
    /// Applies a write of the job's attempt.
    pub fn follow(&mut self, write: &Write) {
        match write {
            Write::Attempt { state, at, attempt, error, history, .. } => {
                self.change((*state, *at), attempt, error, history);
            }
            Write::Finish { at, attempt, history, .. } => {
                self.change((State::Finished, *at), attempt, &ErrorText::Set(None), history);
            }
            Write::NoAttempt { .. } => *self = Self::default(),
            _ => {}
        }
    }

    /// Applies a change of the history, and the other fields of the same row.
    pub fn change(
        &mut self,
        (state, at): (State, UnixMillis),
        attempt: &Attempt,
        error: &ErrorText,
        change: &HistoryChange,
    ) {
        if let ErrorText::Set(error) = error {
            self.error.clone_from(error);
        }
        if change.timed_out {
            self.time_out();
        }
        match &change.step {
            HistoryStep::Stay => {}
            HistoryStep::Hold(consumer) => {
                let consumer = Some(consumer.clone());
                let hold = |reservation| Hold { reservation, started_at: None, consumer };
                self.history.hold = attempt.reservation.map(hold);
            }
            HistoryStep::Touch => self.keep_start(),
            HistoryStep::End { outcome, at: ended_at } => {
                // An uncounted attempt is no longer included in the number.
                let uncounted = *outcome == AttemptOutcome::ReleasedUncounted;
                let end = PastAttempt {
                    attempt: attempt.number + u32::from(uncounted),
                    started_at: UnixMillis::new(0),
                    ended_at: *ended_at,
                    outcome: *outcome,
                    error: self.error.as_deref().and_then(cut_error),
                    consumer: None,
                };
                self.end(end);
            }
            HistoryStep::Restore(history) => self.history = history.clone(),
        }
        self.held = Held::new(state, at, attempt);
    }

    /// Adds the entry of an attempt whose TTR has ended.
    pub fn time_out(&mut self) {
        let Some(held) = self.held else { return };
        self.end(PastAttempt {
            attempt: held.number,
            started_at: UnixMillis::new(0),
            ended_at: held.running.until,
            outcome: AttemptOutcome::TimedOut,
            error: None,
            consumer: None,
        });
    }

    /// Adds the entry of an attempt that ends.
    fn end(&mut self, end: PastAttempt) {
        let running = self.held.take().map(|held| held.running);
        self.history.end(running, end);
    }

    /// Keeps the start of the running attempt. Called before a touch moves the end, from which the
    /// start is otherwise computed.
    fn keep_start(&mut self) {
        let Some(held) = self.held else { return };
        let Some(reservation) = held.running.reservation else { return };
        let hold = self.history.held_by(held.running.reservation).cloned();
        let start = hold.as_ref().and_then(|hold| hold.started_at);
        self.history.hold = Some(Hold {
            reservation,
            started_at: Some(start.unwrap_or(held.running.started_at())),
            consumer: hold.and_then(|hold| hold.consumer),
        });
    }
}

pub const READ_ERROR_AND_HISTORY: &str = "SELECT serial, state, at, number, reservation, due_at, died_at, ttr, \
                             checksum, error, error_checksum FROM attempts WHERE serial = ?";

impl Records {
    /// Reads the data of a popped job that is only on disk, and checks its error.
    pub fn read_error_and_history(&self, serial: u64) -> Result<ErrorAndHistory, ReadError> {
        self.sound(serial, |records, serial| {
            records.past(serial)?.map_err(|()| damage("its error text is damaged"))
        })
    }

    /// Returns whether the column with the error and the history contains a text.
    pub fn error_may_contain(&self, serial: u64, part: &str) -> Result<bool, ReadError> {
        self.sound(serial, |records, serial| {
            let sql = "SELECT error FROM attempts WHERE serial = ?";
            let mut statement = records.connection.prepare_cached(sql)?;
            let found = statement.query_row([serial], |row| {
                let text = row.get_ref(0)?.as_bytes_or_null().unwrap_or_default();
                Ok(text.is_some_and(|text| memmem::find(text, part.as_bytes()).is_some()))
            });
            Ok(found.optional()?.unwrap_or(false))
        })
    }

    /// Reads the same data; the inner error means that the error text is damaged.
    pub fn past(&self, serial: u64) -> rusqlite::Result<Result<ErrorAndHistory, ()>> {
        let mut statement = self.connection.prepare_cached(READ_ERROR_AND_HISTORY)?;
        let read = statement.query_row([serial], |row| {
            let held = match AttemptRow::from_row(row) {
                Ok((row, checksum)) if row.checksum() == checksum => super::load::attempt(&row)
                    .and_then(|(state, at, attempt)| Held::new(state, at, &attempt)),
                _ => None,
            };
            let text = match row.get_ref(9)? {
                ValueRef::Text(text) => Some(text),
                _ => None,
            };
            let parsed = parse(text, row.get(10).unwrap_or(i64::MIN));
            Ok(parsed.map(|(error, history)| ErrorAndHistory { held, error, history }))
        });
        Ok(read.optional()?.unwrap_or_else(|| Ok(ErrorAndHistory::default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let attempt = PastAttempt {
            attempt: 1,
            started_at: UnixMillis::new(1),
            ended_at: UnixMillis::new(2),
            outcome: AttemptOutcome::Released,
            error: Some("an error".to_owned()),
            consumer: None,
        };
        History { hold: None, attempts: vec![attempt] }
    }

    #[test]
    fn an_error_and_a_history_survive_their_columns() {
        for error in [None, Some(""), Some("an error"), Some("= 1 =\n")] {
            for history in [History::default(), history()] {
                let (text, checksum) = columns(error, &history);
                let read = parse(text.as_deref().map(str::as_bytes), checksum);
                assert_eq!(read, Ok((error.map(str::to_owned), history)));
            }
        }
    }

    #[test]
    fn a_damaged_history_leaves_the_error() {
        let (text, checksum) = columns(Some("timeout"), &history());
        let damaged = text.expect("a text").replace(" r ! ", " b ! ");
        let read = parse(Some(damaged.as_bytes()), checksum);
        assert_eq!(read, Ok((Some("timeout".to_owned()), History::default())));
        let damaged = damaged.replace("timeout", "tineout");
        assert_eq!(parse(Some(damaged.as_bytes()), checksum), Err(()));
    }

    #[test]
    fn the_columns_are_pinned_because_files_have_them() {
        let (text, checksum) = columns(Some("late"), &history());
        let text = text.expect("a text");
        assert_eq!(&text[8..], " 27 - - !\n1 1 2 r ! 8 an error\n=late");
        assert_eq!(checksum, text_checksum(Some("late")) + (1 << 32));
        assert_eq!(columns(Some("late"), &History::default()).0.as_deref(), Some("late"));
    }
}
