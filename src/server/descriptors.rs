//! Limits of the files and sockets that this process may have open.

use std::io;

use rustix::{
    io::Errno,
    process::{Resource, getrlimit, setrlimit},
};

/// Descriptors reserved for the store and other uses, or a quarter of all if that is less.
const KEPT: u64 = 256;

/// Raises the limit to the maximum allowed to this process.
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

/// Returns how many connections of clients the limit allows.
pub fn for_connections() -> usize {
    let limit = limit();
    usize::try_from(limit - KEPT.min(limit / 4)).unwrap_or(usize::MAX)
}

/// Returns the error of an accept beyond the limit.
pub fn too_many() -> io::Error {
    Errno::MFILE.into()
}

/// Returns whether an accept failed for lack of a resource that closed connections release.
pub fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}
