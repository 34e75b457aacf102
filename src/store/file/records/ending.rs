//! The end of a finished job, in place of its body: a letter for the outcome, then the JSON of the
//! result. Persisted: must stay stable.
//!
//! No JSON text begins with one of the letters. So a row of `pool` shows that its job is finished,
//! even if the row in `attempts` is lost, and a finished job is never delivered.

use bytes::Bytes;
use rusqlite::{OptionalExtension, Row};

use super::{
    Records, damage,
    load::attempt,
    pool_table,
    read::ReadError,
    row::{AttemptRow, PoolRow},
};
use crate::{
    job::{Change, Millis, Outcome, Policy, PolicyFields, State, UnixMillis},
    store::file::index::Attempt,
};

const LETTERS: [(Outcome, u8); 3] =
    [(Outcome::Finished, b'F'), (Outcome::ResultDropped, b'R'), (Outcome::Deleted, b'D')];

/// Fields of a finished job that only the disk has.
#[derive(Debug, Clone)]
pub struct StoredEnding {
    pub created_at: UnixMillis,
    pub policy: Policy,
    /// The last attempt. Its `died_at` is the time at which the job ended.
    pub attempt: Attempt,
    pub outcome: Outcome,
    pub result: Option<Bytes>,
}

/// Returns the change of a job's record that makes the job finished or deleted.
pub fn change_of(outcome: Outcome, result: Option<&Bytes>, retention: Option<Millis>) -> Change {
    let letter = LETTERS.iter().find(|(known, _)| *known == outcome).map(|(_, letter)| *letter);
    let body: Vec<u8> = letter.into_iter().chain(result.into_iter().flatten().copied()).collect();
    Change {
        schedule: None,
        body: Some(body.into()),
        policy: PolicyFields { finished_retention: retention, ..PolicyFields::default() },
    }
}

/// Parses the column of the body; returns `None` if it contains a body.
pub fn parse(body: &Bytes) -> Option<(Outcome, Option<Bytes>)> {
    let first = body.first()?;
    let (outcome, _) = LETTERS.iter().find(|(_, letter)| letter == first)?;
    Some((*outcome, Some(body.slice(1..)).filter(|result| !result.is_empty())))
}

impl Records {
    /// Reads the attempt of a finished job.
    pub fn read_attempt(&self, serial: u64) -> Result<Attempt, ReadError> {
        self.sound(serial, |records, serial| {
            let row = records.attempt_row(serial)?;
            let row = row.ok_or_else(|| damage("its row in `attempts` is missing or damaged"))?;
            let parsed = attempt(&row).filter(|(state, _, _)| *state == State::Finished);
            let (_, _, attempt) = parsed.ok_or_else(|| damage("it is not finished"))?;
            Ok(attempt)
        })
    }

    /// Returns whether either row of a damaged job shows that the job is finished.
    pub fn has_ended(&self, serial: u64) -> rusqlite::Result<bool> {
        let by_attempt = self.if_sound(self.attempt_row(serial))?.flatten();
        if by_attempt.is_some_and(|row| row.state == State::Finished) {
            return Ok(true);
        }
        Ok(self.if_sound(self.body(serial))?.flatten().is_some_and(|body| parse(&body).is_some()))
    }

    /// Reads a row of `attempts`; returns `None` if it is missing or its checksum is wrong.
    fn attempt_row(&self, serial: u64) -> rusqlite::Result<Option<AttemptRow>> {
        let sql = format!("SELECT {} FROM attempts WHERE serial = ?", AttemptRow::COLUMNS);
        let row = self.connection.prepare_cached(&sql)?.query_row([serial], AttemptRow::from_row);
        let sound =
            |(row, checksum): (AttemptRow, i64)| (row.checksum() == checksum).then_some(row);
        Ok(row.optional()?.and_then(sound))
    }

    /// Reads a body; returns `None` if its checksum is wrong.
    fn body(&self, serial: u64) -> rusqlite::Result<Option<Bytes>> {
        let mut select = self.connection.prepare_cached(pool_table::SELECT)?;
        let read = |row: &Row<'_>| {
            let (pool, _) = PoolRow::from_row(row)?;
            let body = row.get_ref(PoolRow::NEXT_COLUMN)?.as_blob()?;
            let is_sound = i64::from(crc32fast::hash(body)) == pool.body_checksum;
            Ok(is_sound.then(|| Bytes::copy_from_slice(body)))
        };
        Ok(select.query_row([serial], read).optional()?.flatten())
    }

    fn if_sound<T>(&self, read: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
        match read {
            Err(cause) if self.is_damage(&cause) => Ok(None),
            read => read.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_not_json_and_round_trips() {
        for (outcome, letter) in LETTERS {
            assert!(serde_json::from_slice::<serde_json::Value>(&[letter]).is_err());
            for result in [None, Some(Bytes::from("{\"a\":1}"))] {
                let body = change_of(outcome, result.as_ref(), None).body.expect("a body");
                assert_eq!(parse(&body), Some((outcome, result)));
            }
        }
        for body in ["null", "true", "false", "1", "-1", "\"F\"", "{}", "[]", " 1", ""] {
            assert_eq!(parse(&Bytes::from(body)), None, "{body:?}");
        }
    }

    #[test]
    fn the_letters_are_pinned_because_files_have_them() {
        let letters = LETTERS.map(|(outcome, letter)| (outcome, char::from(letter)));
        let known =
            [(Outcome::Finished, 'F'), (Outcome::ResultDropped, 'R'), (Outcome::Deleted, 'D')];
        assert_eq!(letters, known);
    }
}
