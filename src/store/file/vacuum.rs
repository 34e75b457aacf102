//! Gives room back to the disk when jobs have gone.
//!
//! In small steps, each a transaction of its own: other work waits for one step at most. Where there
//! is other work, each step is followed by a pause, and all steps together take a small part of the
//! time. A little room stays, for the jobs that come next.

use std::time::{Duration, Instant};

use super::{
    records::Records,
    room::{GROWTH_PAGES, SPARE_PAGES},
};

/// How long a step should take. What a page costs depends on how many are free (the engine looks
/// for each in its list of them), so the number of pages follows from the step before.
const STEP_DURATION: Duration = Duration::from_millis(2);
const PAGES: std::ops::RangeInclusive<u64> = 8..=1024;
/// On a full disk, what a step changes must fit into the reserve of the log.
const PAGES_WHEN_FULL: u64 = 256;
/// So many times as long as a step took, the next one stays away where there is other work.
const REST_FACTOR: u32 = 4;
/// How long after a failure the next step is.
const RETRY: Duration = Duration::from_secs(1);
/// How long after jobs have gone the first step is; those that follow at once go together.
const REST: Duration = Duration::from_secs(1);
/// A server that is never idle takes a step all the same when it is so late.
const OVERDUE: Duration = Duration::from_millis(200);
/// Free pages that are left alone: 16 MiB, and a quarter of the file.
const SPARE: u64 = 4096;
const SPARE_PART: u64 = 4;

/// When the next step is, if there is anything to do.
pub struct Vacuum {
    next: Option<Instant>,
    /// Pages of the next step.
    pages: u64,
}

impl Vacuum {
    /// What an earlier run has left is looked at first.
    pub fn new() -> Self {
        Self { next: Some(Instant::now() + REST), pages: 64 }
    }

    /// Jobs have gone.
    pub fn notice(&mut self) {
        self.next.get_or_insert_with(|| Instant::now() + REST);
    }

    /// How long nothing need be done; none is for ever.
    pub fn rest(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether a step has waited too long for an idle moment.
    pub fn is_overdue(&self) -> bool {
        self.next.is_some_and(|next| next.elapsed() >= OVERDUE)
    }

    /// Takes one step, outside of any transaction; `busy` if there is other work. On a `full` disk
    /// nothing is kept for the jobs that come next, and a little for deletes and pops.
    pub fn step(&mut self, records: &Records, busy: bool, full: bool) {
        let began = Instant::now();
        let more = self.unpop(records, full);
        let took = began.elapsed();
        let pages = if took > STEP_DURATION { self.pages / 2 } else { self.pages * 2 };
        self.pages = pages.clamp(*PAGES.start(), *PAGES.end());
        self.next = match more {
            Ok(true) => {
                Some(Instant::now() + if busy { took * REST_FACTOR } else { Duration::ZERO })
            }
            Ok(false) => None,
            Err(error) => {
                tracing::debug!(%error, "failed to give room back to the disk");
                Some(Instant::now() + RETRY)
            }
        };
    }

    /// Answers whether there is more.
    fn unpop(&self, records: &Records, full: bool) -> rusqlite::Result<bool> {
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
        // A file that was made without `auto_vacuum` gives nothing back.
        let more = left < free && left > spare(all);
        // The file is cut when the log has been carried over.
        if !more {
            records.carry_over()?;
        }
        Ok(more)
    }
}
