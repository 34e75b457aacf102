//! The table of jobs: its columns in files of this schema, and in files created by schema 4.
//!
//! Schema 4 had a column for each field of a policy. A file of schema 4 keeps its table. Old rows
//! are read in their old form. A row that this version writes has its policy in the column
//! `traceparent`, and 0 as its TTR, which no job of schema 4 has.

use std::borrow::Cow;

/// Statements that create the table, in this schema and in schema 4.
const CREATE: &str = "
    CREATE TABLE pool (
        serial INTEGER PRIMARY KEY, -- order of arrival
        id TEXT NOT NULL,
        topic TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        due_at INTEGER NOT NULL,    -- times in milliseconds
        policy TEXT NOT NULL,       -- all else that its put says (job/policy/text.rs)
        body_checksum INTEGER NOT NULL, -- CRC-32 of the body
        checksum INTEGER NOT NULL,  -- of all before (row.rs)
        body BLOB NOT NULL          -- JSON text, or how it ended (ending.rs); last, so that a start need not read it
    ) STRICT;";
const CREATE_4: &str = "
    CREATE TABLE pool (
        serial INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        topic TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        ttr INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        backoff TEXT,
        dead_retention INTEGER NOT NULL,
        traceparent TEXT,
        body_checksum INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;";

macro_rules! columns {
    (current) => {
        "serial, id, topic, created_at, due_at, policy, body_checksum, checksum"
    };
    (schema_4) => {
        "serial, id, topic, created_at, due_at,
         iif(ttr = 0, traceparent, ttr || ',' || max_attempts || ',' || dead_retention ||
             coalesce('/' || traceparent, '') || ',' || coalesce(backoff, '')),
         body_checksum, checksum"
    };
}

/// Form of a file's table of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolTable {
    Current,
    Schema4,
}

impl PoolTable {
    pub const ALL: [Self; 2] = [Self::Current, Self::Schema4];

    pub fn create(self) -> &'static str {
        match self {
            Self::Current => CREATE,
            Self::Schema4 => CREATE_4,
        }
    }

    /// Returns the columns of a [`PoolRow`](super::row::PoolRow) and its checksum, for a SELECT.
    pub fn columns(self) -> &'static str {
        match self {
            Self::Current => columns!(current),
            Self::Schema4 => columns!(schema_4),
        }
    }

    /// Returns the statement that reads one row with its body by its serial number. It is a
    /// constant, since every pop uses it.
    pub fn select(self) -> &'static str {
        match self {
            Self::Current => {
                concat!("SELECT ", columns!(current), ", body FROM pool WHERE serial = ?")
            }
            Self::Schema4 => {
                concat!("SELECT ", columns!(schema_4), ", body FROM pool WHERE serial = ?")
            }
        }
    }

    /// Returns the statement that adds a row. Parameters: columns, checksum, body.
    pub fn insert(self) -> &'static str {
        match self {
            Self::Current => "INSERT INTO pool VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            Self::Schema4 => {
                "INSERT INTO pool VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, NULL, 0, ?6, ?7, ?8, ?9)"
            }
        }
    }

    /// Returns the statement that changes a row. Parameters: serial number, due time, policy,
    /// checksum of the body, checksum, a new body or NULL to keep the old one, and the topic.
    pub fn update(self) -> &'static str {
        match self {
            Self::Current => {
                "UPDATE pool SET due_at = ?2, policy = ?3, body_checksum = ?4, checksum = ?5,
                 body = coalesce(?6, body), topic = ?7 WHERE serial = ?1"
            }
            Self::Schema4 => {
                "UPDATE pool SET due_at = ?2, traceparent = ?3, body_checksum = ?4, checksum = ?5,
                 body = coalesce(?6, body), topic = ?7, ttr = 0, max_attempts = 0, backoff = NULL,
                 dead_retention = 0 WHERE serial = ?1"
            }
        }
    }
}

/// Returns the policy of a row of schema 4 as its [`columns`](PoolTable::columns) give it.
pub fn policy_4<'a>(
    (ttr, max_attempts, backoff): (i64, i64, Option<&str>),
    dead_retention: i64,
    traceparent: Option<&'a str>,
) -> Cow<'a, str> {
    if ttr == 0 {
        return Cow::Borrowed(traceparent.unwrap_or_default());
    }
    let slash = if traceparent.is_some() { "/" } else { "" };
    let (trace, backoff) = (traceparent.unwrap_or_default(), backoff.unwrap_or_default());
    Cow::Owned(format!("{ttr},{max_attempts},{dead_retention}{slash}{trace},{backoff}"))
}
