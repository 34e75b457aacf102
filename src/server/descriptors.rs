//! Limits of the files and sockets that this process may have open.

use std::io;

use rustix::{
    io::Errno,
    process::{Resource, getrlimit, setrlimit},
};

/// Number of descriptors reserved for the store and other uses. If a quarter of all descriptors is
/// less than this, only that quarter is reserved.
const RESERVED: u64 = 256;

/// Raises the limit of open files to the maximum allowed to this process.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "failed to raise the limit of open files");
        }
    }
}

pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the number of client connections that the limit allows.
pub fn for_connections() -> usize {
    let limit = limit();
    usize::try_from(limit - RESERVED.min(limit / 4)).unwrap_or(usize::MAX)
}

/// Returns the error of an accept that exceeds the limit.
pub fn too_many_open_files() -> io::Error {
    Errno::MFILE.into()
}

/// Returns whether an accept failed for lack of a resource that closing another connection would
/// release.
pub fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}
