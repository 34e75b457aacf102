//! Room kept back for a full disk: finishing and deleting need room too, in the log, and must not
//! be refused because puts have filled everything.
//!
//! While there is room, a file of [`BYTES`] lies beside the jobs. When the disk is full it is
//! thrown off, and puts are refused until it is there again. It is taken in again only when there is
//! clear room beyond it: the room that it has just given up is not room for puts.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{directory, room};

/// More than the log grows to between two checkpoints, and than one batch of frees.
const BYTES: u64 = 8 << 20;
/// Room for so much beyond it, or puts would fill the disk again at once.
const MARGIN: u64 = 8 << 20;
/// What one step writes and syncs: other work waits for it.
const STEP_BYTES: u64 = 512 << 10;
/// How long after a look for room the next one is.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The same after an attempt that has written something, which wears the disk.
const LONG_PAUSE: Duration = Duration::from_secs(10);

pub struct Ballast {
    dir: PathBuf,
    missing: Option<Missing>,
}

/// It is not there, or not yet.
struct Missing {
    /// When the next step is.
    next: Instant,
    /// What has been written of it, and of the margin.
    taken: Option<(File, u64)>,
}

impl Ballast {
    /// Takes it in, if there is room.
    pub fn new(dir: &Path) -> Self {
        let mut ballast = Self { dir: dir.to_owned(), missing: None };
        let file = ballast.file();
        if fs::metadata(file).is_ok_and(|file| file.len() == BYTES) {
            return ballast;
        }
        // At a start nothing waits for the steps, and no put has failed yet for want of the margin.
        if let Err(error) = ballast.take_at_once() {
            tracing::debug!(%error, "there is no room for the reserve of the disk");
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

    /// Is there room for puts?
    pub fn is_there(&self) -> bool {
        self.missing.is_none()
    }

    /// The disk is full: gives up what there is of it. Answers whether that was anything.
    pub fn throw_off(&mut self) -> bool {
        let later = Missing { next: Instant::now() + CHECK_INTERVAL, taken: None };
        let gone = match self.missing.replace(later) {
            None => fs::remove_file(self.file()),
            Some(Missing { taken: None, .. }) => return false,
            Some(_) => fs::remove_file(self.unfinished()),
        };
        gone.is_ok()
    }

    /// How long until the next [`step`](Self::step); none while it is there.
    pub fn rest(&self) -> Option<Duration> {
        let missing = self.missing.as_ref()?;
        Some(missing.next.saturating_duration_since(Instant::now()))
    }

    fn is_due(&self) -> bool {
        self.rest().is_some_and(|rest| rest.is_zero())
    }

    /// Looks for room, or takes a part of it in. Answers whether that was the last part.
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
                tracing::debug!(%error, "there is no room yet for the reserve of the disk");
                // A part of it would only be in the way.
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
            // What the disk says may not be for us: a quota shows only when room is taken.
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

/// Random, since some file systems keep no room for what they can compress. Not from `/dev/urandom`,
/// which a chroot or a minimal container may lack.
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

/// Whether a file of so many bytes can be written there. SQLite tells of some full disks (a quota, a
/// sync that finds no room) only that something went wrong.
pub fn has_room(dir: &Path, bytes: u64) -> bool {
    let file = dir.join("room");
    let written = directory::create(&file).and_then(|mut file| {
        (0..bytes.div_ceil(STEP_BYTES)).try_for_each(|_| file.write_all(&block()))?;
        file.sync_all()
    });
    // What cannot be removed is overwritten by the next one.
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
