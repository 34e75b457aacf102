//! The data directory, and whether its files are still those that were opened. A name is on disk when the directory that has it was synced: without that,
//! a power cut may take a whole store of which every byte was synced.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::store::DiskRoom;

/// Who may use what is made here, whatever the umask: bodies are for the user of the server alone.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes `dir` and what is missing above it, durably.
pub fn make(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let missing = dir.ancestors().take_while(|dir| !dir.exists()).count();
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(&dir)?;
    // The nearest one at least: an earlier start may have crashed before it got here.
    for parent in dir.ancestors().skip(1).take(missing.max(1)) {
        match sync(parent) {
            // One that we may not read is not one in which we have made anything.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && missing == 0 => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Makes a directory that is not there yet.
pub fn make_new(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY).create(dir)
}

/// Makes a file, or empties it.
pub fn create(file: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(FILE).open(file)
}

/// Makes an empty file, unless it is there.
pub fn create_new(file: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(FILE).open(file)
}

/// Has the disk keep the names in `dir`.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The room on the disk of `dir`.
pub fn room(dir: &Path) -> io::Result<DiskRoom> {
    let disk = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskRoom { free: bytes(disk.f_bavail), size: bytes(disk.f_blocks) })
}

/// The files that are open, by device and inode.
pub struct Files(Vec<(PathBuf, (u64, u64))>);

impl Files {
    /// Those of a store that was just opened.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let name = |name| {
            let path = dir.join(name);
            identity(&path).map(|identity| (path, identity))
        };
        Ok(Self(["jobs.db", "jobs.db-wal"].into_iter().map(name).collect::<io::Result<_>>()?))
    }

    /// Whether they lie where they were opened. What is written into others is lost with the
    /// process.
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
