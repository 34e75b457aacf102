//! Reads of one job and of topic settings. They always run outside of write transactions: after a
//! transaction has found a damaged page, SQLite refuses its further writes.

use std::{collections::BTreeSet, fmt, os::unix::fs::FileExt};

use bytes::Bytes;
use rusqlite::{ErrorCode, OptionalExtension, Row};

use super::{
    Records, damage, pool_table,
    row::{PoolRow, rows_of, settings_of_row, topic_checksum},
    schedules::NO_SCHEDULE,
};
use crate::job::{Policy, Setting, Topic, TopicSettings, UnixMillis};

/// Fields of a job that are only on disk.
#[derive(Debug, Clone)]
pub struct StoredFields {
    pub body: Bytes,
    pub created_at: UnixMillis,
    pub policy: Policy,
}

/// Reason why a record cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The record is damaged for good.
    Damaged(String),
    /// SQLite or the disk failed; the record may be sound.
    Engine(rusqlite::Error),
}

impl ReadError {
    pub fn new(serial: u64, what: &dyn fmt::Display) -> Self {
        Self::Damaged(format!("record {serial}: {what}"))
    }
}

/// Damage found in a job while loading the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The row in `pool` has changed since it was written.
    Row,
    /// The row in `attempts` has changed since it was written, or cannot be read.
    Attempt,
    /// The job was quarantined: its body or the pages leading to it were damaged, or it could not
    /// be written.
    Quarantined,
}

impl Damage {
    fn what(self) -> &'static str {
        match self {
            Self::Row => "its row in `pool` has changed since it was written",
            Self::Attempt => {
                "its row in `attempts` is unreadable or has changed since it was written"
            }
            Self::Quarantined => "it was found damaged earlier, and was quarantined",
        }
    }
}

/// Number of pages to read when testing whether the disk works.
const SAMPLED_PAGES: u64 = 64;

impl Records {
    /// Returns whether an error means damaged data, and not a failure of SQLite or the disk. SQLite
    /// reports failed reads of the disk as damage, too. So this reads parts of the file: if a read
    /// fails, the jobs may be sound, and none of them may be quarantined.
    pub fn is_damage(&self, cause: &rusqlite::Error) -> bool {
        match cause {
            rusqlite::Error::SqliteFailure(failure, _) => {
                failure.code == ErrorCode::DatabaseCorrupt && !self.is_disk_failing()
            }
            _ => true,
        }
    }

    /// Reads pages spread over the whole file; returns whether one of these reads fails.
    fn is_disk_failing(&self) -> bool {
        let mut page = [0; 4096];
        let tried = self.file.metadata().and_then(|file| {
            let step = (file.len() / SAMPLED_PAGES).max(page.len() as u64);
            let mut places = (0..file.len()).step_by(usize::try_from(step).unwrap_or(usize::MAX));
            places.try_for_each(|place| self.file.read_at(&mut page, place).map(drop))
        });
        let message = "failed to read jobs.db; jobs that SQLite calls damaged may be sound: check \
                       the disk";
        tried.inspect_err(|error| tracing::error!(%error, "{message}")).is_err()
    }

    /// Reads the record of a job, and checks its row and its body.
    pub fn read(&self, serial: u64) -> Result<StoredFields, ReadError> {
        self.sound(serial, Self::read_row)
    }

    /// Reads the record of a job before a rewrite. Ignores damage of its row in `attempts`, because
    /// the rewrite replaces the whole row.
    pub fn read_rewritable(&self, serial: u64) -> Result<StoredFields, ReadError> {
        let damage = self.damaged.get(&serial).copied();
        let damage = damage.filter(|damage| *damage != Damage::Attempt);
        let quarantined = self.quarantined.contains_key(&serial).then_some(Damage::Quarantined);
        self.sound_unless(damage.or(quarantined), serial, Self::read_row)
    }

    /// Reads a part of a job, unless loading found that the job is damaged.
    pub fn sound<T>(
        &self,
        serial: u64,
        read: impl FnOnce(&Self, u64) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        self.sound_unless(self.damaged.get(&serial).copied(), serial, read)
    }

    fn sound_unless<T>(
        &self,
        damage: Option<Damage>,
        serial: u64,
        read: impl FnOnce(&Self, u64) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        if let Some(damage) = damage {
            return Err(ReadError::new(serial, &damage.what()));
        }
        read(self, serial).map_err(|cause| match self.is_damage(&cause) {
            true => ReadError::new(serial, &cause),
            false => ReadError::Engine(cause),
        })
    }

    fn read_row(&self, serial: u64) -> rusqlite::Result<StoredFields> {
        let mut statement = self.connection.prepare_cached(pool_table::SELECT)?;
        statement.query_row([serial], |row: &Row<'_>| {
            let (pool, checksum) = PoolRow::from_row(row)?;
            let body = row.get_ref(PoolRow::NEXT_COLUMN)?.as_blob()?;
            if pool.checksum(&mut Vec::with_capacity(256)) != checksum {
                return Err(damage("its row has changed since it was written"));
            }
            if i64::from(crc32fast::hash(body)) != pool.body_checksum {
                return Err(damage("its body is damaged"));
            }
            let created_at = UnixMillis::new(row.get(3)?);
            let policy = pool.policy.parse().map_err(|_| damage("its policy cannot be parsed"))?;
            Ok(StoredFields { body: Bytes::copy_from_slice(body), created_at, policy })
        })
    }

    /// Reads the settings of all topics; skips damaged rows.
    pub fn topics(&self) -> rusqlite::Result<TopicSettings> {
        let mut settings = TopicSettings::default();
        match self.read_topics(&mut settings) {
            Err(cause) if self.is_damage(&cause) => {
                tracing::error!(%cause, "skipped the damaged settings of several topics");
            }
            done => done?,
        }
        Ok(settings)
    }

    /// Reads the settings of these topics; skips damaged rows.
    pub fn topics_of(&self, topics: &BTreeSet<Topic>) -> rusqlite::Result<TopicSettings> {
        let mut settings = TopicSettings::default();
        let sql = "SELECT topic, paused, defaults, checksum FROM topics WHERE topic = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        for name in topics.iter().flat_map(rows_of) {
            match statement.query_row([&name], settings_of).optional() {
                Err(cause) if self.is_damage(&cause) => {
                    tracing::error!(%cause, row = %name, "skipped damaged settings of a topic");
                }
                found => found?.into_iter().flatten().for_each(|own| settings.set(own)),
            }
        }
        Ok(settings)
    }

    fn read_topics(&self, settings: &mut TopicSettings) -> rusqlite::Result<()> {
        // Bypasses the index, which may be damaged while the rows are sound.
        let sql = format!(
            "SELECT topic, paused, defaults, checksum FROM topics NOT INDEXED WHERE {NO_SCHEDULE}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            match settings_of(row) {
                Ok(own) => own.into_iter().for_each(|own| settings.set(own)),
                Err(cause) => {
                    tracing::error!(%cause, "skipped damaged settings of a topic");
                }
            }
        }
        Ok(())
    }
}

fn settings_of(row: &Row<'_>) -> rusqlite::Result<Vec<Setting>> {
    let (name, paused): (String, i64) = (row.get(0)?, row.get(1)?);
    let defaults: Option<String> = row.get(2)?;
    let sound = topic_checksum(&name, paused, defaults.as_deref()) == row.get::<_, i64>(3)?;
    let settings = settings_of_row(&name, paused, defaults.as_deref());
    settings.filter(|_| sound).ok_or_else(|| {
        damage(&format!("the settings of {name:?} have changed since they were written"))
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::file::records::past::{ErrorAndHistory, READ_ERROR_AND_HISTORY};

    #[test]
    fn no_statement_is_prepared_anew_for_another_job() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (records, _) = Records::open(&dir.path().join("jobs.db"), None).expect("a new store");
        for serial in 1..5 {
            assert!(matches!(records.read(serial), Err(ReadError::Damaged(_))), "there is none");
            assert_eq!(
                records.read_error_and_history(serial).expect("no row"),
                ErrorAndHistory::default()
            );
        }
        for sql in [pool_table::SELECT, READ_ERROR_AND_HISTORY] {
            let statement = records.connection.prepare_cached(sql).expect("known");
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}
