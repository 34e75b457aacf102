//! Room that the store takes before it needs it. The disk may be full by then, and what is given up
//! on it may be taken by another process.
//!
//! The log keeps [`LOG_BYTES`] as long as the file is open: a commit that fits into it needs nothing
//! of the disk. The file grows before the log does (`commit.rs`).

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use super::directory;

/// The file that is deleted when the disk is full (`ballast.rs`).
pub const BALLAST: &str = "ballast";

/// More than the largest piece of work that frees room writes at once on a full disk.
pub const LOG_BYTES: u64 = 8 << 20;
/// Pages that what grows leaves free in a file on a full disk: deleting may need one.
pub const SPARE_PAGES: u64 = 64;
/// Free pages that stay in a file on a full disk for what grows, beyond the spare ones: pops go on when
/// deletes have made room, although another process takes what is given back to the disk.
pub const GROWTH_PAGES: u64 = 256;
/// Most jobs of one call on a full disk: each may change two pages, and all of them must fit into the log.
pub const JOBS_PER_CALL: usize = 250;

/// Writes zeros behind the end of a file, up to this length.
pub fn extend(file: &File, length: u64) -> io::Result<()> {
    let there = file.metadata()?.len();
    let missing = usize::try_from(length.saturating_sub(there)).unwrap_or(usize::MAX);
    if missing == 0 {
        return Ok(());
    }
    file.write_all_at(&vec![0; missing], there)
}

/// Whether an error means that a disk or a quota is used up.
pub fn is_lacking(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

/// Makes the ballast of a store that is not open its log, in place of one in which there is nothing:
/// no room is given up in between. Does nothing without a ballast.
pub fn ballast_to_log(dir: &Path) -> io::Result<()> {
    let ballast = dir.join(BALLAST);
    let file = match File::options().write(true).open(&ballast) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    // Zeros are an empty log.
    file.write_all_at(&vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()], 0)?;
    file.sync_all()?;
    fs::rename(ballast, dir.join("jobs.db-wal"))?;
    directory::sync(dir)
}
