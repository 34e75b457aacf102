//! The table of jobs, and the statements that read and write its rows.

macro_rules! columns {
    () => {
        "serial, id, topic, created_at, due_at, policy, body_checksum, checksum"
    };
}

/// Statement that creates the table.
pub const CREATE: &str = "
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

/// Columns of a [`PoolRow`](super::row::PoolRow) and its checksum.
pub const COLUMNS: &str = columns!();

/// Reads one row with its body by its serial number.
pub const SELECT: &str = concat!("SELECT ", columns!(), ", body FROM pool WHERE serial = ?");

/// Adds a row. Parameters: columns, checksum, body.
pub const INSERT: &str = "INSERT INTO pool VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Changes a row. Parameters: serial number, due time, policy, checksum of the body, checksum, a
/// new body or NULL to keep the old one, and the topic.
pub const UPDATE: &str =
    "UPDATE pool SET due_at = ?2, policy = ?3, body_checksum = ?4, checksum = ?5,
                          body = coalesce(?6, body), topic = ?7 WHERE serial = ?1";
