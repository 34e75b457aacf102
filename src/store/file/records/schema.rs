//! The tables of a file, and the check that their definitions have not changed since its creation.
//!
//! Definitions and root pages of tables have no checksum. With a flipped bit in one of them, SQLite
//! reads a wrong table, perhaps an empty one, and jobs would lose their attempts.

use rusqlite::Connection;

use super::{damage, pool_table};

/// First table of a file, before the table of jobs.
const LAYOUT: &str = "CREATE TABLE layout (text TEXT NOT NULL) STRICT;";
/// Tables after the table of jobs.
const TABLES: &str = "
    CREATE TABLE attempts (
        serial INTEGER PRIMARY KEY,
        state TEXT NOT NULL,
        at INTEGER NOT NULL,        -- due time; end of the TTR if reserved, of retention if dead or finished
        number INTEGER NOT NULL,
        reservation INTEGER,
        due_at INTEGER NOT NULL,
        died_at INTEGER NOT NULL,   -- when it died, or was finished
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
        gone INTEGER NOT NULL       -- finished or deleted all the same (aside.rs)
    ) STRICT;
    CREATE TABLE tokens (           -- access tokens
        name TEXT PRIMARY KEY,
        text TEXT NOT NULL,         -- JSON
        checksum INTEGER NOT NULL,  -- of all before
        used_at INTEGER
    ) STRICT;";

/// Type, name, table, root page and SQL.
type Definition = (String, String, String, i64, String);

/// Returns the SQL of all tables of a file, in the order of creation.
pub fn tables() -> String {
    format!("{LAYOUT}{}{TABLES}", pool_table::CREATE)
}

/// Fails with an error of damage unless the definitions and root pages equal those of a newly
/// created file.
pub fn check(connection: &Connection) -> rusqlite::Result<()> {
    let vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", (), |row| row.get(0))?;
    let made = Connection::open_in_memory()?;
    made.pragma_update(None, "auto_vacuum", vacuum)?;
    made.execute_batch(&tables())?;
    match definitions(&made)? == definitions(connection)? {
        true => Ok(()),
        false => Err(damage("its tables differ from those that were created")),
    }
}

fn definitions(connection: &Connection) -> rusqlite::Result<Vec<Definition>> {
    let sql = "SELECT type, name, tbl_name, rootpage, coalesce(sql, '') FROM sqlite_schema
               WHERE type IN ('table', 'index')";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map((), |row| {
        let sql: String = row.get(4)?;
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, without_comments(&sql)))
    })?;
    rows.collect()
}

/// Removes SQL comments and layout, which may differ in an unchanged table.
fn without_comments(sql: &str) -> String {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
