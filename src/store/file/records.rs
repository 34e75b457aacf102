//! The records on disk: SQLite as a durable map from a serial number to a job.
//!
//! `pool` has jobs as they were put, and `attempts` the last attempt of each popped job. `layout`
//! has one line of text and, in further rows, the reservation key and a mark (`counted`).
//! Persisted: tables must stay stable, or the schema version must be raised. The file is locked
//! while it is open.

mod aside;
mod attempts;
mod counted;
mod ending;
mod examine;
#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/file_records.rs"]
mod fuzzing;
mod insert;
mod load;
mod opening;
mod past;
mod pool_table;
mod read;
mod reservations;
mod row;
mod schedules;
mod schema;
mod tokens;
mod write;

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, config::DbConfig, ffi, params};

use super::{
    machine::Fate,
    room::{self, LOG_BYTES},
};

#[cfg(any(test, fuzzing))]
pub use self::fuzzing::file_records;
use self::read::Damage;
pub use self::{
    aside::fate,
    ending::{StoredEnding, change_of, parse as parse_ending},
    load::{Ahead, attempt},
    past::{ErrorAndHistory, parse as parse_past},
    read::{ReadError, StoredFields},
    reservations::read as read_reservation_key,
    row::{AttemptRow, PoolRow, settings_of_row, state, topic_checksum},
    schedules::schedule_of_row,
    tokens::token_checksum,
};

/// Result of a write.
type Done = rusqlite::Result<()>;

/// Size of a page in bytes: SQLite's default for a new file.
const PAGE: u64 = 4096;

/// Size of SQLite's cache. With SQLite's default of 2 MiB, jobs that were just written would have
/// left the cache, and pops would read them from the operating system again.
const CACHE_KIB: i64 = 16 << 10;

/// The open file.
pub struct Records {
    connection: Connection,
    in_transaction: bool,
    /// Quarantined jobs, whose rows are never written again.
    quarantined: HashMap<u64, Fate>,
    /// Jobs that were found damaged when they were loaded.
    damaged: HashMap<u64, Damage>,
    /// For reads that show whether the disk works. This must stay the last field, because the last
    /// field is closed last: closing this file while SQLite has it open would release SQLite's
    /// locks.
    file: File,
}

impl Records {
    pub fn commit(&mut self) -> rusqlite::Result<()> {
        if !self.in_transaction {
            return Ok(());
        }
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        self.in_transaction = false;
        Ok(())
    }

    /// Extends the file to the size that this transaction requires, with at least `spare` free
    /// pages. Called before the commit, so that a checkpoint needs no more room.
    pub fn take_room(&self, spare: u64) -> rusqlite::Result<()> {
        if !self.in_transaction {
            return Ok(());
        }
        let (free, pages) = match spare {
            0 => (0, self.page_count()?),
            _ => self.pages()?,
        };
        room::extend(&self.file, (pages + spare.saturating_sub(free)) * PAGE).map_err(no_room)
    }

    /// Extends the log to its reserve, within which later writes need no new room.
    pub fn reserve_log(&self, file: &Path) -> io::Result<()> {
        room::extend(&File::options().write(true).open(log_of(file))?, LOG_BYTES)
    }

    pub fn log_bytes(&self, file: &Path) -> io::Result<u64> {
        fs::metadata(log_of(file)).map(|log| log.len())
    }

    fn page_count(&self) -> rusqlite::Result<u64> {
        self.connection.prepare_cached("PRAGMA page_count")?.query_row((), |row| row.get(0))
    }

    /// Returns the number of free pages of the file, and of all pages.
    pub fn pages(&self) -> rusqlite::Result<(u64, u64)> {
        let mut free = self.connection.prepare_cached("PRAGMA freelist_count")?;
        Ok((free.query_row((), |row| row.get(0))?, self.page_count()?))
    }

    /// Returns the bytes of the file that are in use.
    pub fn bytes(&self) -> rusqlite::Result<u64> {
        let (free, pages) = self.pages()?;
        Ok(pages.saturating_sub(free) * PAGE)
    }

    /// Removes up to `pages` free pages from the file. Must not be called within a transaction.
    pub fn vacuum(&self, pages: u64) -> rusqlite::Result<()> {
        self.all_rows(&format!("PRAGMA incremental_vacuum({pages})"))
    }

    /// Checkpoints the log into the file, which shrinks if a vacuum has removed pages. Does not
    /// wait for readers, but stops at the pages that a reader still needs. Must not be called
    /// within a transaction.
    pub fn carry_over(&self) -> rusqlite::Result<()> {
        self.all_rows("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Runs a statement to its end and skips its rows, because `incremental_vacuum` frees one page
    /// per row.
    fn all_rows(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(())?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Checkpoints the log into the file and truncates the log.
    pub fn empty_log(&self) -> rusqlite::Result<()> {
        self.all_rows("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Commits a change of an unused field.
    pub fn try_to_write(&self) -> rusqlite::Result<()> {
        let read = "PRAGMA user_version";
        let number: i32 = self.connection.query_row(read, (), |row| row.get(0))?;
        self.connection.pragma_update(None, "user_version", number ^ 1)
    }

    /// Makes SQLite keep the log, without a checkpoint, when it closes the file.
    pub fn leave_log(&self) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(option, true) {
            tracing::error!(%error, "failed to keep the log from being deleted");
        }
    }

    /// Checks that a row with this serial number can be written, and rolls it back.
    pub fn try_insert(&mut self, serial: u64) -> rusqlite::Result<()> {
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE");
        let row = params![serial.cast_signed(), "", "", 0, 0, "", 0, 0, b""];
        let tried = begun.and_then(|()| self.connection.execute(pool_table::INSERT, row));
        self.roll_back();
        tried.map(drop)
    }

    pub fn roll_back(&mut self) {
        self.in_transaction = false;
        if self.connection.is_autocommit() {
            return; // SQLite has rolled back by itself
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "failed to roll back");
        }
    }
}

fn log_of(file: &Path) -> PathBuf {
    file.with_file_name("jobs.db-wal")
}

/// Converts an error of the disk to SQLite's error for a full disk; SQLite itself does not
/// recognize a used-up quota.
fn no_room(cause: io::Error) -> rusqlite::Error {
    let code = match room::is_lacking(&cause) {
        true => ffi::SQLITE_FULL,
        false => ffi::SQLITE_IOERR_WRITE,
    };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(cause.to_string()))
}

fn damage(what: &str) -> rusqlite::Error {
    let failure = ffi::Error::new(ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(failure, Some(what.to_owned()))
}
