//! Limits how many jobs one batch changes for calls that change many: purges, kicks, and ends of
//! retentions.
//!
//! Other calls wait for at most the running batch, so its duration must be bounded. It depends on
//! the disk and on the number of pages that the jobs are on, which is known only afterwards. So
//! each batch sets the limit of the next one.

use std::time::Duration;

use super::writer_state::WriterState;

/// How much longer than others a batch with such calls may take.
const EXTRA: Duration = Duration::from_millis(3);
const LIMIT: std::ops::RangeInclusive<usize> = 16..=1024;

pub struct Pace {
    /// Maximum number of jobs that a batch changes for such calls.
    limit: usize,
    /// Number of writes for such calls in the current batch.
    used: usize,
    /// Duration of a short batch with writes, which is mostly that of a sync of the disk.
    usual: Duration,
}

impl Pace {
    pub fn new() -> Self {
        Self { limit: 64, used: 0, usual: Duration::from_millis(1) }
    }

    /// Returns how many more jobs such a call may change, up to `limit`. Every call may change one.
    fn allowed(&self, limit: usize) -> usize {
        limit.min(self.limit.saturating_sub(self.used).max(1))
    }

    /// Takes the duration of a batch that has written.
    pub fn ended(&mut self, took: Duration) {
        // The disk may be slower than assumed, or become so.
        self.usual = took.min(self.usual + self.usual / 32);
        let usual = self.usual;
        let is_full = self.used >= self.limit;
        if self.used > 0 && took > usual + EXTRA {
            self.limit /= 2;
        } else if is_full && took < usual + EXTRA / 2 {
            self.limit *= 2;
        }
        self.limit = self.limit.clamp(*LIMIT.start(), *LIMIT.end());
        self.used = 0;
    }
}

impl WriterState {
    /// Runs a part of a call that changes many jobs, with the number of jobs that it may change.
    pub fn in_bulk<T>(&mut self, limit: usize, work: impl FnOnce(&mut Self, usize) -> T) -> T {
        let (before, limit) = (self.writes.len(), self.pace.allowed(limit));
        let done = work(self, limit);
        self.pace.used += self.writes.len() - before;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of jobs of the next batch after 500 batches that change as many jobs as
    /// they may. A batch takes the duration of a sync, and some microseconds for each job.
    fn settled(sync: u64, each: u64) -> usize {
        let mut pace = Pace::new();
        for _ in 0..500 {
            pace.used = pace.allowed(usize::MAX);
            pace.ended(Duration::from_micros(sync + each * pace.used as u64));
        }
        pace.allowed(usize::MAX)
    }

    #[test]
    fn a_batch_changes_as_many_jobs_as_its_time_allows() {
        assert_eq!(settled(2_000, 1), 1024, "jobs next to each other");
        assert!((16..=64).contains(&settled(2_000, 100)), "each job on another page");
        assert!((16..=32).contains(&settled(2_000, 10_000)), "a slow disk");
        assert_eq!(settled(50_000, 1), 1024, "a disk with slow syncs");
    }

    #[test]
    fn calls_of_one_batch_share_its_limit() {
        let mut pace = Pace::new();
        assert_eq!((pace.allowed(10), pace.allowed(100)), (10, 64));
        pace.used = 60;
        assert_eq!(pace.allowed(10), 4);
        pace.used = 70;
        assert_eq!(pace.allowed(10), 1, "no call waits for ever");
    }

    #[test]
    fn a_slow_batch_of_other_calls_changes_nothing() {
        let mut pace = Pace::new();
        pace.ended(Duration::from_millis(1));
        pace.ended(Duration::from_millis(90));
        assert_eq!(pace.allowed(100), 64);
    }
}
