//! Whether the tables of a file are those that were made. Their definitions and the pages where they
//! begin have no checksum: with a flipped bit there, one table is read in place of another, which may
//! have no rows, and jobs would be without their attempts.

use rusqlite::Connection;

use super::{damage, pool_table::PoolTable, tables};

/// Kind, name, table, first page, and definition.
type Definition = (String, String, String, i64, String);

/// Answers which table of jobs the file has. Fails as damaged unless the file has the tables that one
/// has that is made now in the same way.
pub fn check(connection: &Connection) -> rusqlite::Result<PoolTable> {
    let vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", (), |row| row.get(0))?;
    let found = definitions(connection)?;
    for pool in PoolTable::ALL {
        let made = Connection::open_in_memory()?;
        made.pragma_update(None, "auto_vacuum", vacuum)?;
        made.execute_batch(&tables(pool))?;
        if definitions(&made)? == found {
            return Ok(pool);
        }
    }
    Err(damage("its tables are not those that were made"))
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

/// Another comment is no other table.
fn without_comments(sql: &str) -> String {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
