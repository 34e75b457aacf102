//! The data directory. A name is on disk when the directory that has it was synced: without that,
//! a power cut may take a whole store of which every byte was synced.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Makes `dir` and what is missing above it, durably.
pub(super) fn make(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let missing = dir.ancestors().take_while(|dir| !dir.exists()).count();
    fs::create_dir_all(&dir)?;
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

/// Has the disk keep the names in `dir`.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
