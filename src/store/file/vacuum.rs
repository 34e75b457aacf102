//! Returns free pages to the disk after jobs were deleted.
//!
//! Each small step is a separate transaction, so other work waits for at most one step. While there
//! is other work, a pause follows each step, so steps take a small share of the time. Some free
//! pages are left for new jobs.

use std::time::{Duration, Instant};

use super::{
    records::Records,
    room::{GROWTH_PAGES, SPARE_PAGES},
};

/// Target duration of a step. The cost of freeing a page grows with the number of free pages,
/// because SQLite searches its free list for each page. So the number of pages is computed from the
/// previous step.
const STEP_DURATION: Duration = Duration::from_millis(2);
const PAGES: std::ops::RangeInclusive<u64> = 8..=1024;
/// Maximum number of pages of a step on a full disk, because its changes must fit into the reserve
/// of the log.
const PAGES_WHEN_FULL: u64 = 256;
/// Pause after a step while there is other work, as a multiple of the step's duration.
const REST_FACTOR: u32 = 4;
/// Pause after a failed step.
const RETRY: Duration = Duration::from_secs(1);
/// Delay of the first step after a delete, so that several deletes share the steps.
const REST: Duration = Duration::from_secs(1);
/// Lateness at which a step runs although the server is not idle.
const OVERDUE: Duration = Duration::from_millis(200);
/// Number of free pages that are left: 16 MiB or a quarter of the file, whichever is more.
const SPARE: u64 = 4096;
const SPARE_PART: u64 = 4;

pub struct Vacuum {
    next: Option<Instant>,
    /// Number of pages of the next step.
    pages: u64,
}

impl Vacuum {
    /// Schedules a first step for free pages that an earlier process left.
    pub fn new() -> Self {
        Self { next: Some(Instant::now() + REST), pages: 64 }
    }

    /// Schedules a step after jobs were deleted.
    pub fn notice(&mut self) {
        self.next.get_or_insert_with(|| Instant::now() + REST);
    }

    /// Returns the time until the next step; `None` if no step is scheduled.
    pub fn rest(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Returns whether a step has waited too long for an idle moment.
    pub fn is_overdue(&self) -> bool {
        self.next.is_some_and(|next| next.elapsed() >= OVERDUE)
    }

    /// Takes one step. Must be called outside of any transaction. `busy` says that there is other
    /// work. On a `full` disk, only a few free pages are left, for deletes and pops.
    pub fn step(&mut self, records: &Records, busy: bool, full: bool) {
        let began = Instant::now();
        let more = self.free_pages(records, full);
        let took = began.elapsed();
        let pages = if took > STEP_DURATION { self.pages / 2 } else { self.pages * 2 };
        self.pages = pages.clamp(*PAGES.start(), *PAGES.end());
        self.next = match more {
            Ok(true) => {
                Some(Instant::now() + if busy { took * REST_FACTOR } else { Duration::ZERO })
            }
            Ok(false) => None,
            Err(error) => {
                tracing::debug!(%error, "failed to return free pages to the disk");
                Some(Instant::now() + RETRY)
            }
        };
    }

    /// Returns whether more pages can be freed.
    fn free_pages(&self, records: &Records, full: bool) -> rusqlite::Result<bool> {
        let spare = |all: u64| match full {
            true => SPARE_PAGES + GROWTH_PAGES,
            false => SPARE.max(all / SPARE_PART),
        };
        let (free, all) = records.pages()?;
        let mut left = free;
        if free > spare(all) {
            records.vacuum(if full { self.pages.min(PAGES_WHEN_FULL) } else { self.pages })?;
            left = records.pages()?.0;
        } else if !full {
            return Ok(false);
        }
        // A file created without `auto_vacuum` frees nothing.
        let more = left < free && left > spare(all);
        // A checkpoint truncates the file.
        if !more {
            records.carry_over()?;
        }
        Ok(more)
    }
}
