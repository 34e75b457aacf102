//! Conditions that a process has noticed about its store.

use super::ClockJumps;

/// Conditions that a process has noticed about its store since it opened it.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// Whether the store has no room. It then refuses puts, but accepts calls that free room.
    pub is_full: bool,
    /// Whether one of the store's servers accepts no writes; its buckets refuse them.
    pub refuses_writes: bool,
    /// Whether the settings of one of the store's servers may lose jobs. Its buckets refuse puts.
    pub may_lose_jobs: bool,
    /// Number of times that a bucket has lost its jobs, because the store was emptied or replaced.
    pub data_losses: u64,
    /// Numbers of the buckets that have lost their jobs and refuse all calls until the jobs are
    /// restored or the loss is accepted.
    pub replaced: Vec<usize>,
    /// Jumps of the store's clock.
    pub clock_jumps: ClockJumps,
    /// Number of unreadable rows and pages. The jobs on them are unknown.
    pub unreadable: u64,
}

/// Room on the file system of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that this process may still write.
    pub free: u64,
    /// Total bytes.
    pub size: u64,
}
