//! Room that the store takes in advance. Later the disk may be full, and another process may take
//! the room that the store frees.
//!
//! While the database is open, its log has at least [`LOG_BYTES`]: a commit that fits into this
//! reserve needs no new room. The file grows before the log does (`commit.rs`).

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use super::directory;

/// Name of the file that is deleted when the disk is full (`ballast.rs`).
pub const BALLAST: &str = "ballast";

/// Size of the log's reserve in bytes. On a full disk, no piece of work that frees room writes this
/// much to the log.
pub const LOG_BYTES: u64 = 8 << 20;
/// Number of free pages that a file on a full disk keeps after work of
/// [`Need::Growing`](super::health::Need): a delete may need a free page.
pub const SPARE_PAGES: u64 = 64;
/// Number of free pages, in addition to [`SPARE_PAGES`], that the vacuum leaves in a file on a full
/// disk. So pops work again after deletes, even if another process takes the room that the vacuum
/// frees.
pub const GROWTH_PAGES: u64 = 256;
/// Maximum number of jobs of one call on a full disk. Each job may change two pages, and all
/// changed pages must fit into the log.
pub const JOBS_PER_CALL: usize = 250;

/// Extends a file with zeros to `length` bytes.
pub fn extend(file: &File, length: u64) -> io::Result<()> {
    let there = file.metadata()?.len();
    let missing = usize::try_from(length.saturating_sub(there)).unwrap_or(usize::MAX);
    if missing == 0 {
        return Ok(());
    }
    file.write_all_at(&vec![0; missing], there)
}

/// Returns whether an error means that a disk or a quota is used up.
pub fn is_lacking(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

/// Renames the ballast of a closed store to its log, if the log is empty. This frees no room that
/// another process could take. Does nothing if there is no ballast.
pub fn ballast_to_log(dir: &Path) -> io::Result<()> {
    let ballast = dir.join(BALLAST);
    let file = match File::options().write(true).open(&ballast) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    // SQLite treats a log of zeros as empty.
    file.write_all_at(&vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()], 0)?;
    file.sync_all()?;
    fs::rename(ballast, dir.join("jobs.db-wal"))?;
    directory::sync(dir)
}
