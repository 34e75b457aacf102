//! Remembers until when deaths and ended TTRs were counted, so that no start counts them again.
//!
//! Neither is written, because both follow from deadlines on disk: a start finds them again. The
//! time is in the file within a second, and only if something was counted, so that an idle server
//! writes nothing.

use std::time::{Duration, Instant};

use super::{
    machine::{Machine, Write},
    writer_state::WriterState,
};
use crate::{job::UnixMillis, store::Now};

/// Longest time until the file has the mark.
const SAVED_WITHIN: Duration = Duration::from_secs(1);

/// Time up to which every death and every ended TTR was counted.
pub struct Counted {
    until: UnixMillis,
    /// When to write it; `None` if the file has it.
    due: Option<Instant>,
}

impl Counted {
    /// Returns the mark of the file. If the clock is behind it, the clock was ahead when it was
    /// written: deaths from now on were not counted.
    pub fn new(stored: Option<UnixMillis>, now: UnixMillis) -> Self {
        let until = stored.unwrap_or(UnixMillis::new(0));
        Self { until: until.min(now), due: (until > now).then(Instant::now) }
    }

    fn set(&mut self, until: UnixMillis) {
        self.until = until;
        self.due.get_or_insert_with(|| Instant::now() + SAVED_WITHIN);
    }
}

impl WriterState {
    /// Records that deaths or ended TTRs were counted: all of those before the first deadline that
    /// is left.
    pub fn count_until(&mut self, now: Now) {
        let left = self.machines.iter().filter_map(Machine::next_death).min();
        let until = left.map_or(u64::MAX, |at| at.get().saturating_sub(1));
        self.counted.set(now.floor.min(UnixMillis::new(until)));
    }

    /// Returns the time until the mark must be written; `None` if it need not be, or cannot be.
    pub fn rest_of_counted(&self) -> Option<Duration> {
        let can_write = !self.health.is_full()
            && !self.health.is_replaced()
            && !self.stale
            && self.retry_after().is_none();
        let due = self.counted.due.filter(|_| can_write)?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Adds the mark to the writes of the batch if it is due; returns whether it was.
    pub fn save_counted(&mut self) -> bool {
        let is_due = self.rest_of_counted().is_some_and(|rest| rest.is_zero());
        if is_due {
            self.writes.push(Write::Counted(self.counted.until));
            self.counted.due = None;
        }
        is_due
    }

    /// Tries again later, because the batch with the mark was not committed.
    pub fn keep_counted(&mut self) {
        self.counted.set(self.counted.until);
    }

    /// Writes the mark before the thread ends.
    pub fn save_counted_at_end(&mut self) {
        if self.counted.due.is_some() {
            self.counted.due = Some(Instant::now());
            self.batch(Vec::new());
        }
    }

    /// Acts on all deadlines that were counted before the jobs were read from the file.
    pub fn repeat_counted(&mut self) {
        let until = Now::of_micros(self.counted.until.get().saturating_mul(1_000));
        self.machines.iter_mut().for_each(|machine| machine.repeat(until));
    }
}
