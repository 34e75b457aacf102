//! Opens the file: creates the tables in a new one, and checks those of an existing one.

use std::{
    collections::HashMap, error::Error, fs::File, mem, os::unix::fs::FileExt, path::Path,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row};

use super::{CACHE_KIB, Records, log_of, reservations, schema};
use crate::{
    job::{Buckets, ReservationKey},
    store::{
        Layout, OpenError,
        file::{directory, room::LOG_BYTES},
    },
};

impl Records {
    pub fn open(file: &Path, asked: Option<Buckets>) -> Result<(Self, Buckets), OpenError> {
        let engine = |cause: rusqlite::Error| OpenError::Engine {
            subject: file.display().to_string(),
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
        // SQLite would create the file with the mode of the umask, and it gives the log the mode of
        // the file. Errors are ignored here, since SQLite reports better ones.
        let _ = directory::create_new(file);
        let connection = Connection::open(file).map_err(engine)?;
        let buckets = match Self::prepare(&connection, asked).map_err(refused)? {
            Err(OpenError::Layout { part: "layout", found, .. }) => {
                let cause = format!("its layout is {found}");
                return Err(OpenError::Damaged { dir: dir.to_owned(), cause });
            }
            agreed => agreed?,
        };
        connection.set_prepared_statement_cache_capacity(32);
        let opened = File::options().read(true).write(true).open(file).map_err(|cause| {
            OpenError::Engine { subject: file.display().to_string(), cause: cause.to_string() }
        })?;
        let records = Self {
            connection,
            file: opened,
            in_transaction: false,
            quarantined: HashMap::new(),
            damaged: HashMap::new(),
        };
        Ok((records, buckets))
    }

    fn prepare(
        connection: &Connection,
        asked: Option<Buckets>,
    ) -> rusqlite::Result<Result<Buckets, OpenError>> {
        // This process has the file exclusively, or it does not open the file at all. So no call
        // needs to wait for the transaction of another process.
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Allows a new file to shrink later. On an existing file this would commit a write at every
        // start, which a full disk refuses.
        let pages: u64 = connection.query_row("PRAGMA page_count", (), |row| row.get(0))?;
        if pages == 0 {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        let wal = |row: &Row<'_>| row.get::<_, String>(0);
        let mode = connection.query_row("PRAGMA journal_mode = WAL", (), wal)?;
        if mode != "wal" {
            let cause = format!("SQLite can keep no write-ahead log there (only {mode:?})");
            return Ok(Err(OpenError::Engine { subject: "jobs.db".to_owned(), cause }));
        }
        // Every commit syncs the log, so that an acknowledged write is on disk.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // After a large batch, the log shrinks to its reserve.
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        set_cache(connection, CACHE_KIB)?;
        // Detects more damaged pages when they are read.
        connection.pragma_update(None, "cell_size_check", true)?;
        let named = "SELECT count(*) FROM sqlite_schema WHERE name = 'layout'";
        if connection.query_row(named, (), |row| row.get::<_, bool>(0))? {
            let text: Option<String> =
                connection.query_row("SELECT text FROM layout", (), |row| row.get(0)).optional()?;
            let agreed = Layout::agree(&text.unwrap_or_default(), asked);
            // The tables of another schema differ, and its file is not damaged.
            if agreed.is_ok() {
                schema::check(connection)?;
            }
            return Ok(agreed);
        }
        let buckets = asked.unwrap_or(Buckets::ONE);
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(&schema::tables())?;
        transaction.execute("INSERT INTO layout VALUES (?)", [Layout::new(buckets).text()])?;
        reservations::write(&transaction, &ReservationKey::generate())?;
        transaction.commit()?;
        Ok(Ok(buckets))
    }

    pub fn set_cache(&self, kib: i64) -> rusqlite::Result<()> {
        set_cache(&self.connection, kib)
    }

    /// Rewrites and syncs the log with the same content, and opens the file again. After a failed
    /// sync, the kernel may report pages of the log as synced that are not on disk.
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
}

fn set_cache(connection: &Connection, kib: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -kib)
}
