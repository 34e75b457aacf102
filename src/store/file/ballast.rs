//! Room kept back for a full disk: finishing and deleting need room too, in the log, and must not
//! be refused because puts have filled everything.
//!
//! While there is room, a file of [`BYTES`] lies beside the jobs. When the disk is full it is
//! thrown off, and puts are refused until there is room to take it in again.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// More than the log grows to between two checkpoints, and than one batch of frees.
const BYTES: usize = 8 << 20;
/// How long after a refusal it is worth looking for room again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Ballast {
    file: PathBuf,
    /// When it was thrown off, or could not be taken in last.
    missing_since: Option<Instant>,
}

impl Ballast {
    /// Takes it in, if there is room.
    pub(super) fn new(dir: &Path) -> Self {
        let mut ballast = Self { file: dir.join("ballast"), missing_since: None };
        if let Err(error) = ballast.take_in() {
            tracing::error!(%error, "the disk is full: puts are refused");
            ballast.missing_since = Some(Instant::now());
        }
        ballast
    }

    /// The disk is full: makes room. Answers whether there was any to make.
    pub(super) fn throw_off(&mut self) -> bool {
        tracing::error!("the disk is full: puts are refused until there is room again");
        let there = self.missing_since.replace(Instant::now()).is_none();
        there && fs::remove_file(&self.file).is_ok()
    }

    /// Is there room for puts?
    pub(super) fn is_there(&self) -> bool {
        self.missing_since.is_none()
    }

    /// Is it missing, and worth looking for room again?
    pub(super) fn is_wanted(&self) -> bool {
        self.missing_since.is_some_and(|since| since.elapsed() >= PAUSE)
    }

    /// Takes it in again, if there is room.
    pub(super) fn try_again(&mut self) {
        let there = self.take_in().is_ok();
        self.missing_since = (!there).then(Instant::now);
        if there {
            tracing::info!("the disk has room again: puts are taken");
        }
    }

    fn take_in(&self) -> io::Result<()> {
        if fs::metadata(&self.file).is_ok_and(|file| file.len() == BYTES as u64) {
            return Ok(());
        }
        let written = File::create(&self.file).and_then(|mut file| {
            // Some file systems keep no room for what they can compress.
            let mut block = vec![0; 1 << 20];
            (0..BYTES >> 20).try_for_each(|_| {
                rand::fill(&mut block[..]);
                file.write_all(&block)
            })?;
            file.sync_all()
        });
        if written.is_err() {
            // A part of it would only be in the way.
            let _ = fs::remove_file(&self.file);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_thrown_off_once_and_taken_in_again() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("ballast");
        let mut ballast = Ballast::new(dir.path());
        assert!(ballast.is_there() && file.exists());
        assert!(ballast.throw_off());
        assert!(!ballast.is_there() && !file.exists());
        assert!(!ballast.is_wanted(), "not at once: the disk has only just been full");
        assert!(!ballast.throw_off(), "there is nothing more to throw off");
        ballast.try_again();
        assert!(ballast.is_there() && file.exists());
    }
}
