//! The rows of a job, each with a checksum over all its fields. The checksum reveals a flipped bit
//! before the row becomes a job, so no wrong id, topic or time is ever delivered.
//!
//! A checksum is the low half of XXH3-64, as a signed number of 32 bits, of the numbers of the row
//! in order (64 bits each, little-endian), then its texts, each preceded by its length. Persisted:
//! a new form needs a new schema version.

use rusqlite::Row;
use xxhash_rust::xxh3::xxh3_64;

use crate::job::{Setting, SettingKind, State, Topic};

/// A row of `pool` without its body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolRow<'a> {
    pub serial: i64,
    pub id: &'a str,
    pub topic: &'a str,
    pub created_at: i64,
    pub due_at: i64,
    /// Text of the policy.
    pub policy: &'a str,
    /// CRC-32 of the body.
    pub body_checksum: i64,
}

/// A row of `attempts` without its error text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptRow {
    pub serial: i64,
    pub state: State,
    pub at: i64,
    /// Number of the attempt, plus [`SNOOZED`] if the job is snoozed.
    pub number: i64,
    pub reservation: Option<i64>,
    pub due_at: i64,
    pub died_at: i64,
    pub ttr: i64,
}

/// Value added to the number of an attempt if a consumer gave the job back uncounted while it had
/// no counted attempt. Persisted: must stay stable.
pub const SNOOZED: i64 = 1 << 32;

impl<'a> PoolRow<'a> {
    /// Reads the columns of [`COLUMNS`](super::pool_table::COLUMNS): the row and its checksum.
    pub fn from_row(row: &'a Row<'_>) -> rusqlite::Result<(Self, i64)> {
        let number = |column| row.get::<_, i64>(column);
        let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        let row = Self {
            serial: number(0)?,
            id: text(1)?,
            topic: text(2)?,
            created_at: number(3)?,
            due_at: number(4)?,
            policy: text(5)?,
            body_checksum: number(6)?,
        };
        Ok((row, number(7)?))
    }

    /// Number of the first column after the columns that [`from_row`](Self::from_row) reads.
    pub const NEXT_COLUMN: usize = 8;

    /// Returns the checksum that the row must have; `buffer` saves an allocation per row.
    pub fn checksum(&self, buffer: &mut Vec<u8>) -> i64 {
        buffer.clear();
        for number in [self.serial, self.created_at, self.due_at, self.body_checksum] {
            buffer.extend_from_slice(&number.to_le_bytes());
        }
        for text in [self.id, self.topic, self.policy] {
            buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
            buffer.extend_from_slice(text.as_bytes());
        }
        low_half(xxh3_64(buffer))
    }
}

impl AttemptRow {
    /// Reads the columns of [`COLUMNS`](Self::COLUMNS): the row and its checksum.
    pub fn from_row(row: &Row<'_>) -> rusqlite::Result<(Self, i64)> {
        let number = |column| row.get::<_, i64>(column);
        let row = Self {
            serial: number(0)?,
            state: state(row.get_ref(1)?.as_str()?).ok_or(rusqlite::Error::InvalidQuery)?,
            at: number(2)?,
            number: number(3)?,
            reservation: row.get(4)?,
            due_at: number(5)?,
            died_at: number(6)?,
            ttr: number(7)?,
        };
        Ok((row, number(8)?))
    }

    /// Columns of a row and its checksum, in the order of the table.
    pub const COLUMNS: &'static str =
        "serial, state, at, number, reservation, due_at, died_at, ttr, checksum";

    pub fn checksum(&self) -> i64 {
        let numbers = [
            self.serial,
            self.state as i64,
            self.at,
            self.number,
            i64::from(self.reservation.is_some()),
            self.reservation.unwrap_or_default(),
            self.due_at,
            self.died_at,
            self.ttr,
        ];
        let mut bytes = [0; 9 * 8];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        low_half(xxh3_64(&bytes))
    }
}

/// Returns the checksum of an error text; 0 if there is no text.
pub fn text_checksum(text: Option<&str>) -> i64 {
    text.map_or(0, |text| low_half(xxh3_64(text.as_bytes())))
}

/// Returns the number of a stored pause; 0 means no pause, 1 a pause without an end.
pub fn pause_number(text: Option<&str>) -> i64 {
    text.map_or(0, |text| text.parse().unwrap_or(1))
}

/// Begins the name of a row of `topics` that has the push of a topic, in the column of the
/// defaults. No topic has a space in its name, so the table needs no other column.
const PUSH: &str = "push ";

/// Returns the name of the row of `topics` that has a setting.
pub fn row_of(topic: &Topic, kind: SettingKind) -> String {
    match kind {
        SettingKind::Pause | SettingKind::Defaults => topic.to_string(),
        SettingKind::Push => format!("{PUSH}{topic}"),
    }
}

/// Returns the names of all rows of `topics` that have settings of a topic.
pub fn rows_of(topic: &Topic) -> [String; 2] {
    [SettingKind::Defaults, SettingKind::Push].map(|kind| row_of(topic, kind))
}

/// Returns the settings in a row of `topics`; `None` if the name of the topic is invalid.
pub fn settings_of_row(name: &str, paused: i64, text: Option<&str>) -> Option<Vec<Setting>> {
    let text = text.map(str::to_owned);
    if let Some(name) = name.strip_prefix(PUSH) {
        let topic = name.parse().ok()?;
        return Some(vec![Setting { topic, kind: SettingKind::Push, text }]);
    }
    let topic: Topic = name.parse().ok()?;
    let setting = |kind, text| Setting { topic: topic.clone(), kind, text };
    Some(vec![
        setting(SettingKind::Pause, (paused > 0).then(|| paused.to_string())),
        setting(SettingKind::Defaults, text),
    ])
}

/// Returns the checksum of a topic's settings; `paused` is the result of [`pause_number`].
pub fn topic_checksum(topic: &str, paused: i64, defaults: Option<&str>) -> i64 {
    let text = format!("{topic} {paused} {}", defaults.unwrap_or("-"));
    low_half(xxh3_64(text.as_bytes()))
}

pub fn state(name: &str) -> Option<State> {
    State::ALL.into_iter().find(|state| state.name() == name)
}

fn low_half(hash: u64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
    i64::from(hash as i32)
}

#[cfg(test)]
mod tests;
