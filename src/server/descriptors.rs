//! How many files and sockets this process may have open.

use std::io;

use rustix::{
    io::Errno,
    process::{Resource, getrlimit, setrlimit},
};

/// What is kept for other things than connections of clients: the store, at most so many, or a
/// quarter of all.
const KEPT: u64 = 256;

/// Raises the limit to the highest that this process may have.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "failed to raise the limit of open files");
        }
    }
}

/// The limit in force.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many connections of clients there may be.
pub fn for_connections() -> usize {
    let limit = limit();
    usize::try_from(limit - KEPT.min(limit / 4)).unwrap_or(usize::MAX)
}

/// What an accept fails with that would be one too many.
pub fn too_many() -> io::Error {
    Errno::MFILE.into()
}

/// Whether an accept failed for want of something that closing connections gives back.
pub fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}
