//! The records on disk: SQLite as a durable map from a serial number to a job.
//!
//! `pool` has the job as it was put, `attempts` what pops have left on it (none before the first
//! pop), `layout` one line of text. Persisted: tables must stay stable, or the schema version be
//! raised. The file is locked as long as it is open.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use crate::{
    job::{Backoff, Buckets, Change, Millis, Reservation, State, Topic, TopicSettings, UnixMillis},
    store::{Layout, OpenError},
};

use super::{
    index::{Arrival, Attempt, Rules},
    machine::{ErrorText, Write},
};

const TABLES: &str = "
    CREATE TABLE layout (text TEXT NOT NULL) STRICT;
    CREATE TABLE pool (
        serial INTEGER PRIMARY KEY, -- order of arrival
        id TEXT NOT NULL,
        topic TEXT NOT NULL,
        body BLOB NOT NULL,         -- JSON text
        checksum INTEGER NOT NULL,  -- CRC-32 of the body
        created_at INTEGER NOT NULL,
        due_at INTEGER NOT NULL,    -- times and spans in milliseconds
        ttr INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        backoff TEXT,
        dead_retention INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE attempts (
        serial INTEGER PRIMARY KEY,
        state TEXT NOT NULL,
        at INTEGER NOT NULL,        -- due time; end of the TTR if reserved, of retention if dead
        number INTEGER NOT NULL,
        reservation INTEGER,
        due_at INTEGER NOT NULL,
        died_at INTEGER NOT NULL,
        ttr INTEGER NOT NULL,       -- the one in force
        error TEXT
    ) STRICT;
    CREATE TABLE topics (
        topic TEXT PRIMARY KEY,
        paused INTEGER NOT NULL DEFAULT 0,
        defaults TEXT               -- JSON
    ) STRICT;";

/// What only the disk knows of a job.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) body: Bytes,
    pub(super) created_at: UnixMillis,
    pub(super) error: Option<String>,
}

/// Why a record has no content.
#[derive(Debug)]
pub(super) enum ReadError {
    /// This one cannot be read, now or later.
    Damaged(String),
    /// The engine failed; the record may be fine.
    Engine(rusqlite::Error),
}

/// The open file.
pub(super) struct Records {
    connection: Connection,
    in_transaction: bool,
}

impl Records {
    /// Opens the file, makes the tables if it is new, and compares the layout.
    pub(super) fn open(file: &Path, asked: Option<Buckets>) -> Result<(Self, Buckets), OpenError> {
        let engine = |cause: rusqlite::Error| OpenError::Engine {
            what: file.display().to_string(),
            cause: cause.to_string(),
        };
        let dir = file.parent().unwrap_or(file);
        let refused = |cause: rusqlite::Error| match cause.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => OpenError::InUse { dir: dir.to_owned() },
            _ => engine(cause),
        };
        let connection = Connection::open(file).map_err(engine)?;
        let buckets = Self::prepare(&connection, asked).map_err(refused)??;
        connection.set_prepared_statement_cache_capacity(32);
        Ok((Self { connection, in_transaction: false }, buckets))
    }

    fn prepare(
        connection: &Connection,
        asked: Option<Buckets>,
    ) -> rusqlite::Result<Result<Buckets, OpenError>> {
        // This process has the file for itself, or does not open it: another one's transaction
        // would make every call here wait. No call waits for a lock, since none is ever held.
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Only at the birth of a file: lets it shrink later.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let wal = |row: &Row<'_>| row.get::<_, String>(0);
        let mode = connection.query_row("PRAGMA journal_mode = WAL", (), wal)?;
        if mode != "wal" {
            let cause = format!("SQLite can keep no write-ahead log there (only {mode:?})");
            return Ok(Err(OpenError::Engine { what: "jobs.db".to_owned(), cause }));
        }
        // An acknowledged write is on disk: every commit syncs the log.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let named = "SELECT count(*) FROM sqlite_schema WHERE name = 'layout'";
        if connection.query_row(named, (), |row| row.get::<_, bool>(0))? {
            let text: Option<String> =
                connection.query_row("SELECT text FROM layout", (), |row| row.get(0)).optional()?;
            return Ok(Layout::agree(text.as_deref().unwrap_or_default(), asked));
        }
        let buckets = asked.unwrap_or(Buckets::ONE);
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO layout VALUES (?)", [Layout::new(buckets).text()])?;
        transaction.commit()?;
        Ok(Ok(buckets))
    }

    /// Gives every job to `take`, in order of arrival; answers the greatest serial number. A row
    /// that cannot be read is left where it is, logged, and does not keep the others back.
    pub(super) fn load(&self, mut take: impl FnMut(Arrival)) -> rusqlite::Result<u64> {
        let mut pool = self.connection.prepare(
            "SELECT serial, id, topic, due_at, ttr, max_attempts, backoff, dead_retention
             FROM pool ORDER BY serial",
        )?;
        // Beside it and in the same order: a join would search for the attempts of every job, and
        // most jobs have none.
        let mut attempts = self.connection.prepare(
            "SELECT serial, state, at, number, reservation, due_at, died_at, ttr
             FROM attempts ORDER BY serial",
        )?;
        let (mut rows, mut popped_rows) = (pool.query(())?, attempts.query(())?);
        let (mut popped, mut last) = (popped_rows.next()?, 0);
        while let Some(row) = rows.next()? {
            let serial: u64 = row.get(0)?;
            last = last.max(serial);
            let number = serial.cast_signed();
            while popped.is_some_and(|attempt| attempt.get(0).is_ok_and(|n: i64| n < number)) {
                popped = popped_rows.next()?;
            }
            let own = popped.filter(|attempt| attempt.get(0).is_ok_and(|n: i64| n == number));
            match arrival(row, own, serial) {
                Ok(arrival) => take(arrival),
                Err(error) => tracing::error!(serial, %error, "left an unreadable job aside"),
            }
        }
        Ok(last)
    }

    /// Adds to the open transaction, or begins one.
    pub(super) fn write(&mut self, write: Write) -> rusqlite::Result<()> {
        if !self.in_transaction {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
            self.in_transaction = true;
        }
        debug_assert!(!self.connection.is_autocommit(), "the writer stops at the first error");
        match write {
            Write::Insert { serial, job, created_at, due_at } => self.run(
                "INSERT INTO pool VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    serial,
                    job.id.as_str(),
                    job.topic.as_str(),
                    &job.body[..],
                    crc32fast::hash(&job.body),
                    created_at.get(),
                    due_at.get(),
                    job.ttr.get(),
                    job.max_attempts,
                    job.backoff.map(|backoff| backoff.to_string()),
                    job.dead_retention.get(),
                ],
            ),
            Write::Due { serial, due_at } => self
                .run("UPDATE pool SET due_at = ? WHERE serial = ?", params![due_at.get(), serial]),
            Write::Change { serial, change } => self.change(serial, &change),
            Write::Attempt { serial, state, at, attempt, error } => {
                let (keep, error) = match error {
                    ErrorText::Keep => (true, None),
                    ErrorText::Set(error) => (false, error),
                };
                self.run(
                    "INSERT INTO attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                     ON CONFLICT DO UPDATE SET state = ?2, at = ?3, number = ?4, reservation = ?5,
                     due_at = ?6, died_at = ?7, ttr = ?8, error = iif(?10, error, ?9)",
                    params![
                        serial,
                        state.name(),
                        at.get(),
                        attempt.number,
                        attempt.reservation.map(|token| token.bits().cast_signed()),
                        attempt.due_at.get(),
                        attempt.died_at.get(),
                        attempt.ttr.get(),
                        error,
                        keep,
                    ],
                )
            }
            Write::Paused { topic, paused } => self.run(
                "INSERT INTO topics (topic, paused) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET paused = ?2",
                params![topic.as_str(), paused],
            ),
            Write::Defaults { topic, text } => self.run(
                "INSERT INTO topics (topic, defaults) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET defaults = ?2",
                params![topic.as_str(), text],
            ),
            Write::NoAttempt { serial } => {
                self.run("DELETE FROM attempts WHERE serial = ?", [serial])
            }
            Write::Delete { serial } => {
                self.run("DELETE FROM attempts WHERE serial = ?", [serial])?;
                self.run("DELETE FROM pool WHERE serial = ?", [serial])
            }
        }
    }

    fn change(&self, serial: u64, change: &Change) -> rusqlite::Result<()> {
        self.run(
            "UPDATE pool SET body = coalesce(?2, body), checksum = coalesce(?3, checksum),
             ttr = coalesce(?4, ttr), max_attempts = coalesce(?5, max_attempts),
             backoff = CASE WHEN ?6 THEN ?7 ELSE backoff END WHERE serial = ?1",
            params![
                serial,
                change.body.as_deref(),
                change.body.as_deref().map(crc32fast::hash),
                change.ttr.map(Millis::get),
                change.max_attempts,
                change.backoff.is_some(),
                change.backoff.as_ref().and_then(Option::as_ref).map(Backoff::to_string),
            ],
        )
    }

    fn run(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(params).map(drop)
    }

    /// The rest of a job; checks its body.
    pub(super) fn read(&self, serial: u64) -> Result<Record, ReadError> {
        let read = |row: &Row<'_>| {
            let body: Vec<u8> = row.get(0)?;
            let record = Record {
                body: body.into(),
                created_at: UnixMillis::new(row.get(2)?),
                error: row.get(3)?,
            };
            Ok((record, row.get::<_, u32>(1)?))
        };
        let (record, checksum) = self
            .connection
            .prepare_cached(
                "SELECT p.body, p.checksum, p.created_at, a.error
                 FROM pool p LEFT JOIN attempts a USING (serial) WHERE serial = ?",
            )
            .and_then(|mut statement| statement.query_row([serial], read))
            .map_err(|cause| match cause {
                rusqlite::Error::SqliteFailure(failure, _)
                    if failure.code != ErrorCode::DatabaseCorrupt =>
                {
                    ReadError::Engine(cause)
                }
                cause => ReadError::Damaged(format!("record {serial}: {cause}")),
            })?;
        if crc32fast::hash(&record.body) != checksum {
            return Err(ReadError::Damaged(format!("record {serial}: its body is damaged")));
        }
        Ok(record)
    }

    /// What is set for all topics; a row that cannot be read is left aside.
    pub(super) fn topics(&self) -> rusqlite::Result<TopicSettings> {
        let mut settings = TopicSettings::default();
        let mut statement = self.connection.prepare_cached("SELECT * FROM topics")?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let defaults: Option<String> = row.get(2)?;
            let defaults = defaults.map(|text| serde_json::from_str(&text)).transpose();
            let (Ok(topic), Ok(defaults)) = (name.parse::<Topic>(), defaults) else {
                tracing::error!(topic = name, "left unreadable settings of a topic aside");
                continue;
            };
            if row.get(1)? {
                settings.paused.insert(topic.clone());
            }
            settings.defaults.extend(defaults.map(|defaults| (topic, defaults)));
        }
        Ok(settings)
    }

    /// Makes everything written since the last commit durable, or undoes it.
    pub(super) fn commit(&mut self) -> rusqlite::Result<()> {
        if !self.in_transaction {
            return Ok(());
        }
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        self.in_transaction = false;
        Ok(())
    }

    /// How many pages of the file are free, and how many there are.
    pub(super) fn pages(&self) -> rusqlite::Result<(u64, u64)> {
        let read = |sql| self.connection.prepare_cached(sql)?.query_row((), |row| row.get(0));
        Ok((read("PRAGMA freelist_count")?, read("PRAGMA page_count")?))
    }

    /// Takes up to so many free pages out of the file. Not within a transaction.
    pub(super) fn vacuum(&self, pages: u64) -> rusqlite::Result<()> {
        self.all_rows(&format!("PRAGMA incremental_vacuum({pages})"))
    }

    /// Carries the log over into the file, which gets its size then, as far as no reader of the
    /// file is in the way: this waits for none. Not within a transaction.
    pub(super) fn carry_over(&self) -> rusqlite::Result<()> {
        self.all_rows("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Each page that is given back is one row of an answer.
    fn all_rows(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(())?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Makes what room there is on a full disk.
    pub(super) fn make_room(&self) {
        // The log first and last: the vacuum needs room in it, and may fail for want of that.
        let empty_log = "PRAGMA wal_checkpoint(TRUNCATE)";
        for sql in [empty_log, "PRAGMA incremental_vacuum(2000)", empty_log] {
            if let Err(error) = self.all_rows(sql) {
                tracing::warn!(%error, sql, "failed to give room back to the disk");
            }
        }
    }

    /// Undoes everything written since the last commit.
    pub(super) fn roll_back(&mut self) {
        self.in_transaction = false;
        if self.connection.is_autocommit() {
            return; // the engine has rolled back by itself
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "failed to roll back");
        }
    }
}

/// A job as the disk has it. Whether its due time has come, the machine sees.
fn arrival(
    row: &Row<'_>,
    popped: Option<&Row<'_>>,
    serial: u64,
) -> Result<Arrival, Box<dyn std::error::Error>> {
    let backoff: Option<String> = row.get(6)?;
    let rules = Rules {
        ttr: Millis::new(row.get(4)?),
        max_attempts: row.get(5)?,
        backoff: backoff.map(|text| text.parse()).transpose()?,
        dead_retention: Millis::new(row.get(7)?),
    };
    let (state, at, attempt) = match popped {
        None => (State::Delayed, UnixMillis::new(row.get(3)?), None),
        Some(popped) => {
            let (state, at, attempt) = attempt(popped)?;
            (state, at, Some(attempt))
        }
    };
    // Without copies: this runs for every job at the start.
    let (id, topic) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
    Ok(Arrival { id: id.parse()?, topic: topic.parse()?, serial, state, at, rules, attempt })
}

fn attempt(row: &Row<'_>) -> Result<(State, UnixMillis, Attempt), Box<dyn std::error::Error>> {
    let millis = |column| row.get(column).map(UnixMillis::new);
    let state = match row.get_ref(1)?.as_str()? {
        "reserved" => State::Reserved,
        "dead" => State::Dead,
        "delayed" | "ready" => State::Delayed,
        other => return Err(format!("unknown state {other:?}").into()),
    };
    let reservation: Option<i64> = row.get(4)?;
    let attempt = Attempt {
        number: row.get(3)?,
        reservation: reservation.map(|bits| Reservation::from_bits(bits.cast_unsigned())),
        due_at: millis(5)?,
        died_at: millis(6)?,
        ttr: Millis::new(row.get(7)?),
        expired: false,
    };
    Ok((state, millis(2)?, attempt))
}
