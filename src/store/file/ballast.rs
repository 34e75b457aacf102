//! Room that is reserved for a full disk. Finishing and deleting need room in the log, and must
//! work even after puts have filled the disk.
//!
//! While the disk has room, the data directory contains a file of [`BYTES`], the ballast. When the
//! disk is full, the file is deleted, and puts are refused until it exists again. It is written
//! again only when the disk has room for it and for [`MARGIN`] more bytes, so that puts cannot use
//! the room that its deletion has freed.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{directory, room};

/// Size of the ballast in bytes. The log grows less than this between two checkpoints, and a batch
/// that frees room writes less than this.
const BYTES: u64 = 8 << 20;
/// Number of bytes that must be free in addition to the ballast; otherwise puts would fill the disk
/// again at once.
const MARGIN: u64 = 8 << 20;
/// Number of bytes that one step writes and syncs while other work waits.
const STEP_BYTES: u64 = 512 << 10;
/// Interval between checks for free room.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failed attempt that has written to the disk, because frequent attempts would wear
/// the disk out.
const LONG_PAUSE: Duration = Duration::from_secs(10);

pub struct Ballast {
    dir: PathBuf,
    missing: Option<Missing>,
}

/// State of a ballast that is missing or not complete yet.
struct Missing {
    next: Instant,
    /// The unfinished file, and the number of bytes of ballast and margin written so far.
    taken: Option<(File, u64)>,
}

impl Ballast {
    /// Writes the ballast, if there is room.
    pub fn new(dir: &Path) -> Self {
        let mut ballast = Self { dir: dir.to_owned(), missing: None };
        let file = ballast.file();
        if fs::metadata(file).is_ok_and(|file| file.len() == BYTES) {
            return ballast;
        }
        // At the start, no work waits for these steps, and no put has failed for lack of room yet.
        if let Err(error) = ballast.write_all() {
            tracing::debug!(%error, "there is no room for the ballast file");
            let _ = fs::remove_file(ballast.unfinished());
            ballast.missing = Some(Missing { next: Instant::now() + CHECK_INTERVAL, taken: None });
        }
        ballast
    }

    fn write_all(&self) -> io::Result<()> {
        if !self.is_there_room()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut file = directory::create(&self.unfinished())?;
        (0..BYTES / STEP_BYTES).try_for_each(|_| file.write_all(&block()))?;
        self.finish(&file)
    }

    fn finish(&self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(self.unfinished(), self.file())?;
        directory::sync(&self.dir)
    }

    fn is_there_room(&self) -> io::Result<bool> {
        Ok(directory::room(&self.dir)?.free >= BYTES + MARGIN)
    }

    /// Returns whether the ballast is complete, so that there is room for puts.
    pub fn is_complete(&self) -> bool {
        self.missing.is_none()
    }

    /// Deletes the ballast, or its unfinished part, because the disk is full. Returns whether it
    /// deleted a file.
    pub fn delete_file(&mut self) -> bool {
        let later = Missing { next: Instant::now() + CHECK_INTERVAL, taken: None };
        let gone = match self.missing.replace(later) {
            None => fs::remove_file(self.file()),
            Some(Missing { taken: None, .. }) => return false,
            Some(_) => fs::remove_file(self.unfinished()),
        };
        gone.is_ok()
    }

    /// Returns the time until the next [`step`](Self::step); `None` while the ballast is complete.
    pub fn rest(&self) -> Option<Duration> {
        let missing = self.missing.as_ref()?;
        Some(missing.next.saturating_duration_since(Instant::now()))
    }

    fn is_due(&self) -> bool {
        self.rest().is_some_and(|rest| rest.is_zero())
    }

    /// Checks for room, or writes the next part of the ballast. Returns whether it is complete now.
    pub fn step(&mut self) -> bool {
        if !self.is_due() {
            return false;
        }
        let taken = self.missing.take().and_then(|missing| missing.taken);
        match self.take(taken) {
            Ok(Progress::There) => return true,
            Ok(Progress::Part(file, bytes)) => {
                let taken = Some((file, bytes));
                self.missing = Some(Missing { next: Instant::now(), taken });
            }
            Ok(Progress::NoRoom) => {
                self.missing = Some(Missing { next: Instant::now() + CHECK_INTERVAL, taken: None });
            }
            Err(error) => {
                tracing::debug!(%error, "there is no room yet for the ballast file");
                // An unfinished ballast takes room without being of use.
                let _ = fs::remove_file(self.unfinished());
                self.missing = Some(Missing { next: Instant::now() + LONG_PAUSE, taken: None });
            }
        }
        false
    }

    fn take(&self, taken: Option<(File, u64)>) -> io::Result<Progress> {
        let Some((mut file, bytes)) = taken else {
            if !self.is_there_room()? {
                return Ok(Progress::NoRoom);
            }
            // The free space may be reserved for other users: only a write shows whether a quota
            // allows more.
            return Ok(Progress::Part(directory::create(&self.unfinished())?, 0));
        };
        file.write_all(&block())?;
        file.sync_data()?;
        if bytes + STEP_BYTES < BYTES + MARGIN {
            return Ok(Progress::Part(file, bytes + STEP_BYTES));
        }
        file.set_len(BYTES)?;
        self.finish(&file)?;
        Ok(Progress::There)
    }

    fn file(&self) -> PathBuf {
        self.dir.join(room::BALLAST)
    }

    fn unfinished(&self) -> PathBuf {
        self.dir.join("ballast.new")
    }
}

/// Returns random bytes, because some file systems compress other data. Does not read
/// `/dev/urandom`, which a chroot or a minimal container may lack.
fn block() -> Vec<u8> {
    let mut block = vec![0; usize::try_from(STEP_BYTES).unwrap_or(usize::MAX)];
    rand::fill(&mut block[..]);
    block
}

enum Progress {
    There,
    Part(File, u64),
    NoRoom,
}

/// Returns whether a file of `bytes` bytes can be written in `dir`. SQLite reports some kinds of a
/// full disk, such as a quota or a sync that finds no room, as general failures.
pub fn has_room(dir: &Path, bytes: u64) -> bool {
    let file = dir.join("room");
    let written = directory::create(&file).and_then(|mut file| {
        (0..bytes.div_ceil(STEP_BYTES)).try_for_each(|_| file.write_all(&block()))?;
        file.sync_all()
    });
    // A file that cannot be removed is overwritten by the next probe.
    let _ = fs::remove_file(file);
    !written.is_err_and(|error| room::is_lacking(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_thrown_off_once_and_taken_in_again_by_steps() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("ballast");
        let mut ballast = Ballast::new(dir.path());
        assert!(ballast.is_complete() && fs::metadata(&file).is_ok_and(|f| f.len() == BYTES));
        assert!(ballast.delete_file());
        assert!(!ballast.is_complete() && !file.exists());
        assert!(!ballast.step(), "not at once: the disk has only just been full");
        assert!(!ballast.delete_file(), "there is nothing more to throw off");
        ballast.missing.as_mut().expect("it is missing").next = Instant::now();
        assert!(!ballast.step() && !ballast.step(), "by steps");
        assert!(dir.path().join("ballast.new").exists());
        assert!(ballast.delete_file(), "the part of it");
        assert!(!dir.path().join("ballast.new").exists());
        ballast.missing.as_mut().expect("it is missing").next = Instant::now();
        while !ballast.step() {}
        assert!(ballast.is_complete() && fs::metadata(&file).is_ok_and(|f| f.len() == BYTES));
    }
}
