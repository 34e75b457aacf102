//! The data directory, and the check that its files are still the opened ones.
//!
//! A file's name is on disk only after a sync of its directory. Without this sync, a power cut may
//! lose a whole store although all its bytes were synced.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::store::DiskRoom;

/// Modes of created directories and files, whatever the umask: only the user of the server may
/// read bodies.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates `dir` and its missing parents durably.
pub fn make(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let missing = dir.ancestors().take_while(|dir| !dir.exists()).count();
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(&dir)?;
    // Syncs at least the nearest parent, because an earlier start may have crashed before the sync.
    for parent in dir.ancestors().skip(1).take(missing.max(1)) {
        match sync(parent) {
            // A parent that this user may not read contains nothing that this process has created.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && missing == 0 => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Creates a directory; fails if it exists.
pub fn make_new(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY).create(dir)
}

/// Creates a file, or truncates it.
pub fn create(file: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(FILE).open(file)
}

/// Creates an empty file; fails if it exists.
pub fn create_new(file: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(FILE).open(file)
}

/// Makes the names in `dir` durable.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Returns size and free space of the file system of `dir`.
pub fn room(dir: &Path) -> io::Result<DiskRoom> {
    let disk = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskRoom { free: bytes(disk.f_bavail), size: bytes(disk.f_blocks) })
}

/// The open files with their device and inode numbers.
pub struct Files(Vec<(PathBuf, (u64, u64))>);

impl Files {
    /// Returns the files of a store that was just opened.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let name = |name| {
            let path = dir.join(name);
            identity(&path).map(|identity| (path, identity))
        };
        Ok(Self(["jobs.db", "jobs.db-wal"].into_iter().map(name).collect::<io::Result<_>>()?))
    }

    /// Returns whether the files are still where they were opened. If they are not, data written to
    /// the open files is lost when the process ends.
    pub fn are_in_place(&self) -> bool {
        self.0.iter().all(|(path, opened)| match identity(path) {
            Ok(found) => found == *opened,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        })
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}
