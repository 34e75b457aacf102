//! Reads the rows of `attempts` in parallel with the rows of `pool`, in the same order. A join
//! would search for the attempt of every job, although most jobs have none.

use std::collections::VecDeque;

use super::{Records, row::AttemptRow};

/// Number of rows read at once.
const CHUNK: usize = 1000;

/// Row of one job in `attempts`.
pub enum Popped {
    No,
    Yes(AttemptRow),
    /// The row has changed since it was written.
    Damaged,
    /// The job may have a row, on a page that cannot be read.
    Perhaps,
}

enum Found {
    Sound(AttemptRow),
    /// A damaged row: its serial number, and if the row has the form of an attempt, the row with
    /// its checksum.
    Suspect(i64, Option<(AttemptRow, i64)>),
    /// A range that could not be read.
    Gap,
}

pub struct Attempts<'r> {
    records: &'r Records,
    chunk: VecDeque<Found>,
    /// Serial number after which the next chunk begins; `None` after the last chunk.
    from: Option<i64>,
    /// Next sound row.
    ahead: Option<AttemptRow>,
    /// Damaged rows between the last sound row and `ahead`.
    suspects: Vec<(i64, Option<(AttemptRow, i64)>)>,
    gap: bool,
}

impl<'r> Attempts<'r> {
    pub fn new(records: &'r Records) -> Self {
        Self {
            records,
            chunk: VecDeque::new(),
            from: Some(i64::MIN),
            ahead: None,
            suspects: Vec::new(),
            gap: false,
        }
    }

    /// Returns the row of the job with this serial number. Calls must be in order of the numbers.
    pub fn of(&mut self, serial: i64) -> rusqlite::Result<Popped> {
        while self.ahead.is_none_or(|row| row.serial < serial) {
            if self.ahead.take().is_some() {
                self.suspects.clear();
                self.gap = false;
            }
            if !self.advance()? {
                break;
            }
        }
        if let Some(row) = self.ahead.filter(|row| row.serial == serial) {
            return Ok(Popped::Yes(row));
        }
        // If the serial number itself is damaged, the checksum shows to which job the row belongs.
        for (_, row) in &self.suspects {
            if let Some((row, checksum)) = row {
                let own = AttemptRow { serial, ..*row };
                if own.checksum() == *checksum {
                    return Ok(Popped::Yes(own));
                }
            }
        }
        Ok(match self.suspects.iter().any(|(number, _)| *number == serial) {
            true => Popped::Damaged,
            false if self.gap => Popped::Perhaps,
            false => Popped::No,
        })
    }

    /// Goes to the next sound row; returns whether there is one.
    fn advance(&mut self) -> rusqlite::Result<bool> {
        loop {
            match self.chunk.pop_front() {
                Some(Found::Sound(row)) => {
                    self.ahead = Some(row);
                    return Ok(true);
                }
                Some(Found::Suspect(serial, row)) => {
                    tracing::error!(serial, "a row of `attempts` has changed since it was written");
                    self.suspects.push((serial, row));
                }
                Some(Found::Gap) => self.gap = true,
                None => match self.from.take() {
                    Some(from) => self.fetch(from)?,
                    None => return Ok(false),
                },
            }
        }
    }

    fn fetch(&mut self, from: i64) -> rusqlite::Result<()> {
        let before = self.chunk.len();
        let read = self.read(from);
        let sound = self.chunk.iter().rev().find_map(|found| match found {
            Found::Sound(row) => Some(row.serial),
            _ => None,
        });
        let reached = sound.unwrap_or(from).max(from);
        match read {
            Ok(()) if self.chunk.len() - before < CHUNK => self.from = None,
            // Damaged serial numbers may have any value, so this continues only after sound rows.
            Ok(()) if reached > from => self.from = Some(reached),
            Ok(()) => self.chunk.push_back(Found::Gap),
            Err(cause) if self.records.is_damage(&cause) => {
                let after = reached.max(from.saturating_add(1));
                let next = self.records.readable_behind("attempts", after)?;
                tracing::error!(%cause, after, ?next, "a page of `attempts` is damaged");
                self.chunk.push_back(Found::Gap);
                self.from = next.map(|next| next - 1);
            }
            Err(cause) => return Err(cause),
        }
        Ok(())
    }

    fn read(&mut self, from: i64) -> rusqlite::Result<()> {
        let columns = AttemptRow::COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM attempts WHERE serial > ? ORDER BY serial LIMIT {CHUNK}"
        );
        let mut statement = self.records.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([from])?;
        while let Some(row) = rows.next()? {
            self.chunk.push_back(match AttemptRow::from_row(row) {
                Ok((row, checksum)) if row.checksum() == checksum => Found::Sound(row),
                Ok((row, checksum)) => Found::Suspect(row.serial, Some((row, checksum))),
                Err(_) => Found::Suspect(row.get(0)?, None),
            });
        }
        Ok(())
    }
}
