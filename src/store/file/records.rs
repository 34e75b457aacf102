//! The records on disk: SQLite as a durable map from a serial number to a job.
//!
//! `pool` has the job as it was put, `attempts` what pops have left on it (none before the first
//! pop), `layout` one line of text, and in a second row the key of reservations. Persisted: tables must stay stable, or the schema version be
//! raised. The file is locked as long as it is open.

mod attempts;
mod examine;
#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/file_records.rs"]
mod fuzzing;
mod load;
mod opening;
mod pool_table;
mod read;
mod reservations;
mod row;
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

use super::room::{self, LOG_BYTES};

#[cfg(any(test, fuzzing))]
pub use self::fuzzing::file_records;
pub use self::{
    load::attempt,
    pool_table::policy_4,
    read::{ReadError, Record},
    reservations::read as read_reservation_key,
    row::{AttemptRow, PoolRow, pause_of, state, text_checksum, topic_checksum},
    tokens::token_checksum,
};
use self::{pool_table::PoolTable, read::Damage};

/// Bytes of a page: what the engine makes of a new file.
const PAGE: u64 = 4096;

/// The open file.
pub struct Records {
    connection: Connection,
    /// Its table of jobs.
    pool: PoolTable,
    in_transaction: bool,
    /// Damaged jobs, whose rows are not touched any more; whether they are gone.
    aside: HashMap<u64, bool>,
    /// Jobs that were found damaged when they were loaded.
    damaged: HashMap<u64, Damage>,
    /// To see whether the disk can be read. The last field: closing it while the engine has the
    /// file would end the engine's locks.
    file: File,
}

impl Records {
    /// Makes everything written since the last commit durable, or undoes it.
    pub fn commit(&mut self) -> rusqlite::Result<()> {
        if !self.in_transaction {
            return Ok(());
        }
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        self.in_transaction = false;
        Ok(())
    }

    /// Extends the file to all pages that it has after this transaction, and to `spare` free ones:
    /// before the commit, since carrying the log over must need no room.
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

    /// Extends the log to its reserve. What the engine writes there later needs no more room.
    pub fn reserve_log(&self, file: &Path) -> io::Result<()> {
        room::extend(&File::options().write(true).open(log_of(file))?, LOG_BYTES)
    }

    /// How long the log is.
    pub fn log_bytes(&self, file: &Path) -> io::Result<u64> {
        fs::metadata(log_of(file)).map(|log| log.len())
    }

    fn page_count(&self) -> rusqlite::Result<u64> {
        self.connection.prepare_cached("PRAGMA page_count")?.query_row((), |row| row.get(0))
    }

    /// How many pages of the file are free, and how many there are.
    pub fn pages(&self) -> rusqlite::Result<(u64, u64)> {
        let mut free = self.connection.prepare_cached("PRAGMA freelist_count")?;
        Ok((free.query_row((), |row| row.get(0))?, self.page_count()?))
    }

    /// How many bytes of the file are in use.
    pub fn bytes(&self) -> rusqlite::Result<u64> {
        let (free, pages) = self.pages()?;
        Ok(pages.saturating_sub(free) * PAGE)
    }

    /// Takes up to so many free pages out of the file. Not within a transaction.
    pub fn vacuum(&self, pages: u64) -> rusqlite::Result<()> {
        self.all_rows(&format!("PRAGMA incremental_vacuum({pages})"))
    }

    /// Carries the log over into the file, which gets its size then, as far as no reader of the
    /// file is in the way: this waits for none. Not within a transaction.
    pub fn carry_over(&self) -> rusqlite::Result<()> {
        self.all_rows("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Each page that is given back is one row of an answer.
    fn all_rows(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(())?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Carries the log over into the file and cuts it to nothing.
    pub fn empty_log(&self) -> rusqlite::Result<()> {
        self.all_rows("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Commits something that means nothing.
    pub fn try_to_write(&self) -> rusqlite::Result<()> {
        let read = "PRAGMA user_version";
        let number: i32 = self.connection.query_row(read, (), |row| row.get(0))?;
        self.connection.pragma_update(None, "user_version", number ^ 1)
    }

    /// Closing will neither carry the log over nor delete it.
    pub fn leave_log(&self) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(option, true) {
            tracing::error!(%error, "failed to keep the log from being deleted");
        }
    }

    /// Whether a row of this number can be written; nothing stays of it.
    pub fn try_insert(&mut self, serial: u64) -> rusqlite::Result<()> {
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE");
        let row = params![serial.cast_signed(), "", "", 0, 0, "", 0, 0, b""];
        let tried = begun.and_then(|()| self.connection.execute(self.pool.insert(), row));
        self.roll_back();
        tried.map(drop)
    }

    /// Undoes everything written since the last commit.
    pub fn roll_back(&mut self) {
        self.in_transaction = false;
        if self.connection.is_autocommit() {
            return; // the engine has rolled back by itself
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "failed to roll back");
        }
    }
}

fn log_of(file: &Path) -> PathBuf {
    file.with_file_name("jobs.db-wal")
}

/// An error of the disk as the engine tells it; it does not know quotas.
fn no_room(cause: io::Error) -> rusqlite::Error {
    let code = match room::is_lacking(&cause) {
        true => ffi::SQLITE_FULL,
        false => ffi::SQLITE_IOERR_WRITE,
    };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(cause.to_string()))
}

/// What was read is not what was written.
fn damage(what: &str) -> rusqlite::Error {
    let failure = ffi::Error::new(ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(failure, Some(what.to_owned()))
}
