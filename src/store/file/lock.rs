//! Allows one process per data directory.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use super::directory;
use crate::store::OpenError;

/// The lock on a data directory, held until it is dropped.
pub struct Lock(File);

impl Lock {
    /// Takes the lock; fails if another process holds it.
    pub fn take(dir: &Path) -> Result<Self, OpenError> {
        let engine = |cause: std::io::Error| OpenError::Engine {
            subject: dir.display().to_string(),
            cause: cause.to_string(),
        };
        let file = directory::create(&dir.join("lock")).map_err(engine)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.to_owned() }),
            Err(TryLockError::Error(cause)) => Err(engine(cause)),
        }
    }
}

impl Drop for Lock {
    /// Unlocks explicitly, because a child process that has just been started may still hold the
    /// file open.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::error!(%error, "failed to unlock the data directory");
        }
    }
}
