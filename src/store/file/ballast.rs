//! Reserves room for a full disk: finishing and deleting need room in the log, and must not be
//! refused because puts have filled the disk.
//!
//! While there is room, a file of [`BYTES`] lies in the data directory. When the disk is full, the
//! file is deleted, and puts are refused until it is there again. It is written again only when
//! the disk has room for it and [`MARGIN`] more: puts must not use the room that its deletion has
//! freed.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{directory, room};

/// Size of the ballast: more than the log grows between two checkpoints, and more than a batch
/// that frees room writes.
const BYTES: u64 = 8 << 20;
/// Bytes that must be free beyond the ballast, or puts would fill the disk again at once.
const MARGIN: u64 = 8 << 20;
/// Bytes that one step writes and syncs; other work waits for it.
const STEP_BYTES: u64 = 512 << 10;
/// Interval between checks for free room.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failed attempt that has written to the disk; frequent attempts would wear it out.
const LONG_PAUSE: Duration = Duration::from_secs(10);

pub struct Ballast {
    dir: PathBuf,
    missing: Option<Missing>,
}

/// State of a ballast that is missing or not complete yet.
struct Missing {
    next: Instant,
    /// The unfinished file, and the bytes written of ballast and margin.
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
        // At the start no work waits for the steps, and no put has failed for lack of room yet.
        if let Err(error) = ballast.take_at_once() {
            tracing::debug!(%error, "there is no room for the ballast file");
            let _ = fs::remove_file(ballast.unfinished());
            ballast.missing = Some(Missing { next: Instant::now() + CHECK_INTERVAL, taken: None });
        }
        ballast
    }

    fn take_at_once(&self) -> io::Result<()> {
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
    pub fn is_there(&self) -> bool {
        self.missing.is_none()
    }

    /// Deletes the ballast, or its unfinished part, as the disk is full. Returns whether it deleted
    /// a file.
    pub fn throw_off(&mut self) -> bool {
        let later = Missing { next: Instant::now() + CHECK_INTERVAL, taken: None };
        let gone = match self.missing.replace(later) {
            None => fs::remove_file(self.file()),
            Some(Missing { taken: None, .. }) => return false,
            Some(_) => fs::remove_file(self.unfinished()),
        };
        gone.is_ok()
    }

    /// Returns the time until the next [`step`](Self::step); none while the ballast is complete.
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
                // An unfinished part only takes room.
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
            // The free space may not be for us: a quota shows only when we write.
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

/// Returns random bytes, since some file systems compress others. Not from `/dev/urandom`, which
/// a chroot or a minimal container may lack.
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

/// Returns whether a file of `bytes` can be written in `dir`. SQLite reports some full disks (a
/// quota, a sync that finds no room) as general failures.
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
        assert!(ballast.is_there() && fs::metadata(&file).is_ok_and(|f| f.len() == BYTES));
        assert!(ballast.throw_off());
        assert!(!ballast.is_there() && !file.exists());
        assert!(!ballast.step(), "not at once: the disk has only just been full");
        assert!(!ballast.throw_off(), "there is nothing more to throw off");
        ballast.missing.as_mut().expect("it is missing").next = Instant::now();
        assert!(!ballast.step() && !ballast.step(), "by steps");
        assert!(dir.path().join("ballast.new").exists());
        assert!(ballast.throw_off(), "the part of it");
        assert!(!dir.path().join("ballast.new").exists());
        ballast.missing.as_mut().expect("it is missing").next = Instant::now();
        while !ballast.step() {}
        assert!(ballast.is_there() && fs::metadata(&file).is_ok_and(|f| f.len() == BYTES));
    }
}
