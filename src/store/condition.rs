//! What a store has noticed about itself.

use super::ClockJumps;

/// What a process has noticed about its store since it opened it.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// There is no room for more jobs: puts are refused, and calls that free room go on.
    pub is_full: bool,
    /// A server of several takes no writes: the buckets that it has refuse them.
    pub refuses_writes: bool,
    /// How often a bucket was found to have lost its jobs: the store was emptied or replaced.
    pub data_losses: u64,
    /// Numbers of the buckets that have lost their jobs and refuse all calls until these are restored or
    /// the loss is accepted.
    pub replaced: Vec<usize>,
    /// How the store's clock behaved.
    pub clock_jumps: ClockJumps,
    /// Rows and pages that cannot be read, and do not even tell which jobs they had.
    pub unreadable: u64,
}

/// How much room the file system of a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that this process may still write.
    pub free: u64,
    /// Bytes in all.
    pub size: u64,
}
