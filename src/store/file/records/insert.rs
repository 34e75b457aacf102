//! Adds records to the file.

use rusqlite::{Statement, params};

use super::{Done, Records, pool_table, row::PoolRow, write::signed};
use crate::{
    job::{NewJob, UnixMillis},
    store::file::machine::Write,
};

impl Records {
    /// Runs the inserts at the start of `writes` with one prepared statement; returns their number.
    pub fn insert_all(&self, writes: &[Write]) -> Result<usize, (usize, rusqlite::Error)> {
        let insert_row = self.connection.prepare_cached(pool_table::INSERT);
        let mut statement = insert_row.map_err(|cause| (0, cause))?;
        let mut buffer = Vec::with_capacity(256);
        for (index, write) in writes.iter().enumerate() {
            let Write::Insert { serial, job, created_at, due_at } = write else { return Ok(index) };
            insert(&mut statement, &mut buffer, *serial, job, (*created_at, *due_at))
                .map_err(|cause| (index, cause))?;
        }
        Ok(writes.len())
    }
}

fn insert(
    statement: &mut Statement<'_>,
    buffer: &mut Vec<u8>,
    serial: u64,
    job: &NewJob,
    (created_at, due_at): (UnixMillis, UnixMillis),
) -> Done {
    let policy = job.policy.to_string();
    let row = PoolRow {
        serial: signed(serial),
        id: job.id.as_str(),
        topic: job.topic.as_str(),
        created_at: signed(created_at.get()),
        due_at: signed(due_at.get()),
        policy: &policy,
        body_checksum: i64::from(crc32fast::hash(&job.body)),
    };
    let inserted = statement.execute(params![
        row.serial,
        row.id,
        row.topic,
        row.created_at,
        row.due_at,
        row.policy,
        row.body_checksum,
        row.checksum(buffer),
        &job.body[..],
    ]);
    inserted.map(drop)
}
