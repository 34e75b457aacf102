//! Repairs a damaged store: keeps its files, and creates a new store from the readable rows.
//!
//! The damaged files stay in another folder. The new file is complete and synced before it replaces
//! the old one. Until then, a mark file makes every start fail.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
};

use sqlite_salvage::{Log, Pages};

use super::{
    Options, directory,
    lock::Lock,
    salvage::{PAGE, ROOTS, salvage},
};
use crate::store::OpenError;

pub use super::salvage::Salvaged;

/// Name of the mark file. While it exists, `jobs.db` and its log may not belong together.
const MARK: &str = "repairing";
const NEW: &str = "jobs.db.new";
const NEW_LOG: &str = "jobs.db.new-wal";
/// Files of SQLite that belong to `jobs.db`.
const SQLITE_FILES: [&str; 2] = ["jobs.db-wal", "jobs.db-shm"];

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Folder of the damaged files.
    pub saved: PathBuf,
    /// Numbers of rows in the new store, and of lost rows.
    pub salvaged: Salvaged,
}

/// Refuses damage that SQLite would not report: a log that is damaged in its middle, inconsistent
/// pages, an unfinished repair.
pub fn check(dir: &Path) -> Result<(), OpenError> {
    if dir.join(MARK).exists() {
        return Err(OpenError::Damaged {
            dir: dir.to_owned(),
            cause: "an earlier repair was interrupted".to_owned(),
        });
    }
    let wal = dir.join("jobs.db-wal");
    if let Some(log) = Log::read(&wal, PAGE).map_err(|cause| engine(&wal, &cause))? {
        if let Some(damage) = log.damage() {
            let cause = format!("its log jobs.db-wal is {damage}");
            return Err(OpenError::Damaged { dir: dir.to_owned(), cause });
        }
        if log.torn() > 0 {
            let frames = log.torn();
            tracing::warn!(
                frames,
                "dropped an incomplete commit at the end of the log; it was not acknowledged"
            );
        }
    }
    check_tables(dir)
}

/// Refuses tables whose rows SQLite would silently leave out.
fn check_tables(dir: &Path) -> Result<(), OpenError> {
    let file = dir.join("jobs.db");
    // A crash at the very first start leaves a journal, and no tables yet.
    if !file.exists() || dir.join("jobs.db-journal").exists() {
        return Ok(());
    }
    let pages = Pages::open(&file, PAGE).map_err(|cause| engine(&file, &cause))?;
    for (table, root) in ROOTS {
        // Loading skips damaged pages of these two.
        let is_skipped = ["pool", "attempts"].contains(&table);
        let unreadable = (!is_skipped && !pages.is_root(root)).then_some(root);
        if let Some(page) = unreadable.or_else(|| pages.unsound(root)) {
            let cause = format!("jobs.db: page {page} of the table `{table}` is inconsistent");
            return Err(OpenError::Damaged { dir: dir.to_owned(), cause });
        }
    }
    Ok(())
}

/// Creates the directory `into` with a new store of all readable rows of the store in `dir`,
/// which is not changed and must not be open.
///
/// # Errors
/// Another process has the store open, or one of the two directories cannot be used.
pub fn salvage_into(dir: &Path, into: &Path, options: &Options) -> Result<Salvaged, OpenError> {
    let _lock = Lock::take(dir)?;
    directory::make_new(into).map_err(|cause| engine(into, &cause))?;
    let now = options.clock.now().floor;
    salvage(&dir.join("jobs.db"), &into.join("jobs.db"), options.buckets, now)
}

/// Saves the files of the store in a new folder in `dir`, and replaces them with a new store of all
/// readable rows.
///
/// # Errors
/// Another process has the store open, or the disk fails; another call continues the repair.
pub fn repair(dir: &Path, options: &Options) -> Result<Repaired, OpenError> {
    let _lock = Lock::take(dir)?;
    let failed = |cause: io::Error| engine(dir, &cause);
    let (mark, new) = (dir.join(MARK), dir.join(NEW));
    if mark.exists() && !new.exists() {
        // The interrupted repair had replaced the file already, so only the mark must be removed.
        fs::remove_file(&mark).and_then(|()| directory::sync(dir)).map_err(failed)?;
        return Ok(Repaired { saved: dir.to_owned(), salvaged: Salvaged::default() });
    }
    let now = options.clock.now().floor;
    let saved = dir.join(format!("damaged-{}", now.get()));
    let salvaged = if mark.exists() {
        Salvaged::default()
    } else {
        save_files(dir, &saved).map_err(failed)?;
        // An unfinished repair may have left these files. SQLite would apply the log to the new
        // file.
        for name in [NEW_LOG, NEW] {
            remove(&dir.join(name)).map_err(failed)?;
        }
        let salvaged = salvage(&saved.join("jobs.db"), &new, options.buckets, now)?;
        copy_owner_and_mode(&new, &dir.join("jobs.db")).map_err(failed)?;
        fs::File::open(&new).and_then(|file| file.sync_all()).map_err(failed)?;
        directory::create(&mark).and_then(|_| directory::sync(dir)).map_err(failed)?;
        salvaged
    };
    replace(dir, &new, &mark).map_err(failed)?;
    Ok(Repaired { saved, salvaged })
}

/// Removes a file, if it is there.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// Links or copies the files into the new folder `saved`.
fn save_files(dir: &Path, saved: &Path) -> io::Result<()> {
    directory::make_new(saved)?;
    for name in ["jobs.db", "jobs.db-wal"] {
        let (from, to) = (dir.join(name), saved.join(name));
        if from.exists() && fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to)?;
            fs::File::open(&to)?.sync_all()?;
        }
    }
    directory::sync(saved)?;
    directory::sync(dir)
}

/// Gives the new file the owner and the mode of the old one. Otherwise a repair by root would lock
/// the server out, or let other users read the jobs.
fn copy_owner_and_mode(new: &Path, old: &Path) -> io::Result<()> {
    let old = match fs::metadata(old) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        old => old?,
    };
    let made = fs::metadata(new)?;
    fs::set_permissions(new, old.permissions())?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        chown(new, Some(old.uid()), Some(old.gid()))?;
    }
    Ok(())
}

/// Removes the old log and renames the new file to `jobs.db`. Then removes the mark, which prevents
/// starts in between.
fn replace(dir: &Path, new: &Path, mark: &Path) -> io::Result<()> {
    for name in SQLITE_FILES {
        remove(&dir.join(name))?;
    }
    directory::sync(dir)?;
    fs::rename(new, dir.join("jobs.db"))?;
    directory::sync(dir)?;
    fs::remove_file(mark)?;
    directory::sync(dir)
}

fn engine(subject: &Path, cause: &dyn std::fmt::Display) -> OpenError {
    OpenError::Engine { subject: subject.display().to_string(), cause: cause.to_string() }
}
