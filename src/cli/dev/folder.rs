//! Temporary folders that do not outlive their processes for long: a later process removes the
//! folders of processes that were killed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::process::geteuid;
use tempfile::TempDir;

const PREFIX: &str = "delay-queue-dev-";

/// A temporary folder, locked while its process runs.
pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Creates a folder in `parent`, and removes folders there that no process uses any more.
    ///
    /// # Errors
    /// The folder cannot be created or locked.
    pub fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            // Another process that starts now may find the folder before it is locked.
            match lock(folder.path()) {
                Ok(Some(lock)) if folder.path().exists() => {
                    return Ok(Self { folder, _lock: lock });
                }
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Locks a folder until the file is closed. Returns `None` if another process has locked it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(cause)) => Err(cause),
    }
}

/// Removes the folders of this user that no process has locked.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == geteuid().as_raw());
        if is_ours && let Ok(Some(_lock)) = lock(&entry.path()) {
            // If this fails, the next process tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_folders_are_removed() {
        let parent = tempfile::tempdir().expect("a folder");
        let running = Folder::create(parent.path()).expect("a folder");
        let abandoned = parent.path().join(format!("{PREFIX}abandoned"));
        let other = parent.path().join("other");
        fs::create_dir_all(abandoned.join("jobs")).expect("a folder");
        fs::create_dir(&other).expect("a folder");
        let next = Folder::create(parent.path()).expect("a folder");
        assert!(running.path().exists() && next.path().exists() && other.exists());
        assert!(!abandoned.exists());
        let path = next.path().to_owned();
        next.remove().expect("removed");
        assert!(!path.exists());
    }
}
