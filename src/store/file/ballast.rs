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

    /// Is there room for puts? Looks again from time to time.
    pub(super) fn has_room(&mut self) -> bool {
        match self.missing_since {
            None => true,
            Some(since) if since.elapsed() < PAUSE => false,
            Some(_) => {
                let there = self.take_in().is_ok();
                self.missing_since = (!there).then(Instant::now);
                if there {
                    tracing::info!("the disk has room again: puts are taken");
                }
                there
            }
        }
    }

    fn take_in(&self) -> io::Result<()> {
        if fs::metadata(&self.file).is_ok_and(|file| file.len() == BYTES as u64) {
            return Ok(());
        }
        let written = File::create(&self.file).and_then(|mut file| {
            // Bytes that differ: some file systems keep no room for zeros.
            let block: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
            (0..BYTES >> 20).try_for_each(|_| file.write_all(&block))?;
            file.sync_all()
        });
        if written.is_err() {
            // A part of it would only be in the way.
            let _ = fs::remove_file(&self.file);
        }
        written
    }
}
