//! The records on disk: SQLite as a durable map from a serial number to a job.
//!
//! `pool` has the job as it was put, `attempts` what pops have left on it (none before the first
//! pop), `layout` one line of text, and in a second row the key of reservations. Persisted: tables must stay stable, or the schema version be
//! raised. The file is locked as long as it is open.

mod attempts;
#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/file_records.rs"]
mod fuzzing;
mod load;
mod pool_table;
mod read;
mod reservations;
mod row;
mod schema;
mod tokens;
mod write;

use std::{
    collections::HashMap,
    error::Error,
    fs::{self, File},
    io, mem,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, config::DbConfig, ffi, params};

use super::{
    directory,
    room::{self, LOG_BYTES},
};
use crate::{
    job::{Buckets, ReservationKey},
    store::{Agreed, Layout, OpenError},
};

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

/// The first table of a file; that of jobs is the next.
const LAYOUT: &str = "CREATE TABLE layout (text TEXT NOT NULL) STRICT;";
/// The tables behind that of jobs.
const TABLES: &str = "
    CREATE TABLE attempts (
        serial INTEGER PRIMARY KEY,
        state TEXT NOT NULL,
        at INTEGER NOT NULL,        -- due time; end of the TTR if reserved, of retention if dead
        number INTEGER NOT NULL,
        reservation INTEGER,
        due_at INTEGER NOT NULL,
        died_at INTEGER NOT NULL,
        ttr INTEGER NOT NULL,       -- the one in force
        checksum INTEGER NOT NULL,  -- of all before
        error TEXT,
        error_checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE topics (
        topic TEXT PRIMARY KEY,
        paused INTEGER NOT NULL DEFAULT 0,  -- 1, or until when in Unix ms
        defaults TEXT,              -- JSON
        checksum INTEGER NOT NULL   -- of all before
    ) STRICT;
    CREATE TABLE aside (            -- damaged jobs, whose rows are not touched any more
        serial INTEGER PRIMARY KEY,
        gone INTEGER NOT NULL       -- finished or deleted all the same
    ) STRICT;
    CREATE TABLE tokens (           -- access tokens
        name TEXT PRIMARY KEY,
        text TEXT NOT NULL,         -- JSON
        checksum INTEGER NOT NULL,  -- of all before
        used_at INTEGER
    ) STRICT;";

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
    /// Opens the file, makes the tables if it is new, and compares the layout.
    pub fn open(file: &Path, asked: Option<Buckets>) -> Result<(Self, Buckets), OpenError> {
        let engine = |cause: rusqlite::Error| OpenError::Engine {
            what: file.display().to_string(),
            cause: cause.to_string(),
        };
        let dir = file.parent().unwrap_or(file);
        let refused = |cause: rusqlite::Error| match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => OpenError::InUse { dir: dir.to_owned() },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                OpenError::Damaged { dir: dir.to_owned(), cause: format!("jobs.db: {cause}") }
            }
            _ => engine(cause),
        };
        // The engine leaves the rights to a new file to the umask, and gives its log the same ones. It
        // also tells better why there can be no file.
        let _ = directory::create_new(file);
        let connection = Connection::open(file).map_err(engine)?;
        let (pool, buckets) = match Self::prepare(&connection, asked).map_err(refused)? {
            Err(OpenError::Layout { what: "layout", found, .. }) => {
                let cause = format!("its layout is {found}");
                return Err(OpenError::Damaged { dir: dir.to_owned(), cause });
            }
            agreed => agreed?,
        };
        connection.set_prepared_statement_cache_capacity(32);
        let opened = File::options().read(true).write(true).open(file).map_err(|cause| {
            OpenError::Engine { what: file.display().to_string(), cause: cause.to_string() }
        })?;
        let records = Self {
            connection,
            pool,
            file: opened,
            in_transaction: false,
            aside: HashMap::new(),
            damaged: HashMap::new(),
        };
        Ok((records, buckets))
    }

    fn prepare(
        connection: &Connection,
        asked: Option<Buckets>,
    ) -> rusqlite::Result<Result<(PoolTable, Buckets), OpenError>> {
        // This process has the file for itself, or does not open it: another one's transaction
        // would make every call here wait. No call waits for a lock, since none is ever held.
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Lets a new file shrink later. On one that is there it would commit a write at every start,
        // which a full disk refuses.
        let pages: u64 = connection.query_row("PRAGMA page_count", (), |row| row.get(0))?;
        if pages == 0 {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        let wal = |row: &Row<'_>| row.get::<_, String>(0);
        let mode = connection.query_row("PRAGMA journal_mode = WAL", (), wal)?;
        if mode != "wal" {
            let cause = format!("SQLite can keep no write-ahead log there (only {mode:?})");
            return Ok(Err(OpenError::Engine { what: "jobs.db".to_owned(), cause }));
        }
        // An acknowledged write is on disk: every commit syncs the log.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // A log that a large batch has made longer gives back what is beyond its reserve.
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // In KiB: with the engine's own 2 MiB, pops read what was just written from the system again.
        connection.pragma_update(None, "cache_size", -16_384)?;
        // More damaged pages are noticed when they are read.
        connection.pragma_update(None, "cell_size_check", true)?;
        let named = "SELECT count(*) FROM sqlite_schema WHERE name = 'layout'";
        if connection.query_row(named, (), |row| row.get::<_, bool>(0))? {
            let pool = schema::check(connection)?;
            let text: Option<String> =
                connection.query_row("SELECT text FROM layout", (), |row| row.get(0)).optional()?;
            let found = text.unwrap_or_default();
            return match Layout::agree(&found, asked) {
                Ok(Agreed { buckets, is_older }) => {
                    if is_older {
                        let sql = "UPDATE layout SET text = ?2 WHERE text = ?1";
                        connection.execute(sql, [found, Layout::new(buckets).text()])?;
                        tracing::info!("upgraded the store to this version's schema");
                    }
                    Ok(Ok((pool, buckets)))
                }
                Err(refused) => Ok(Err(refused)),
            };
        }
        let buckets = asked.unwrap_or(Buckets::ONE);
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(&tables(PoolTable::Current))?;
        transaction.execute("INSERT INTO layout VALUES (?)", [Layout::new(buckets).text()])?;
        reservations::write(&transaction, &ReservationKey::generate())?;
        transaction.commit()?;
        Ok(Ok((PoolTable::Current, buckets)))
    }

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

    /// Opens the file again, as it is, after writing its log once more: what the system has of the
    /// log may not be on disk although it says so.
    pub fn reopen(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        self.leave_log();
        let log = File::options().read(true).write(true).open(log_of(file))?;
        drop(mem::replace(&mut self.connection, Connection::open_in_memory()?));
        (self.in_transaction, self.file) = (false, log.try_clone()?);
        let (mut block, mut at) = (vec![0; 1 << 20], 0);
        loop {
            let read = log.read_at(&mut block, at)?;
            if read == 0 {
                break;
            }
            log.write_all_at(&block[..read], at)?;
            at += read as u64;
        }
        log.sync_all()?;
        *self = Self::open(file, None)?.0;
        Ok(())
    }

    /// Closing will neither carry the log over nor delete it.
    pub fn leave_log(&self) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(option, true) {
            tracing::error!(%error, "failed to keep the log from being deleted");
        }
    }

    /// What is wrong with the file, after reading all of it; nothing if it is sound.
    pub fn examine(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare("PRAGMA quick_check(5)")?;
        let lines: rusqlite::Result<Vec<String>> =
            statement.query_map((), |row| row.get(0))?.collect();
        let mut wrong = lines?;
        wrong.retain(|line| line != "ok");
        match self.damaged_bodies() {
            Ok(0) => {}
            Ok(bodies) => wrong.push(format!("{bodies} jobs have a damaged body")),
            Err(cause) => wrong.push(format!("not all bodies can be read: {cause}")),
        }
        if !self.damaged.is_empty() {
            wrong.push(format!("{} jobs are damaged; they are kept as dead", self.damaged.len()));
        }
        Ok(wrong)
    }

    fn damaged_bodies(&self) -> rusqlite::Result<u64> {
        let mut bodies = self.connection.prepare("SELECT serial, body_checksum, body FROM pool")?;
        let (mut rows, mut damaged) = (bodies.query(())?, 0);
        while let Some(row) = rows.next()? {
            let known = row.get::<_, i64>(0)?.cast_unsigned();
            if self.aside.contains_key(&known) || self.damaged.contains_key(&known) {
                continue;
            }
            let sound = row
                .get_ref(2)?
                .as_blob()
                .is_ok_and(|body| row.get::<_, i64>(1) == Ok(i64::from(crc32fast::hash(body))));
            damaged += u64::from(!sound);
        }
        Ok(damaged)
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

/// All tables of a file with this table of jobs, in the order in which they are made.
fn tables(pool: PoolTable) -> String {
    format!("{LAYOUT}{}{TABLES}", pool.create())
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
