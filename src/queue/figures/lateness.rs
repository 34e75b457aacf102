//! Lateness of jobs, from due time to pop: per minute for the last hour, and as a histogram since
//! the start.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use hdrhistogram::Histogram;
use prometheus_client::metrics::histogram::Histogram as Buckets;
use schemars::JsonSchema;
use serde::Serialize;

use crate::job::{Millis, UnixMillis};

const MINUTE: u64 = 60_000;
const MINUTES: usize = 60;
/// A day in milliseconds. Greater values count as a day.
const LATEST: u64 = 86_400_000;

/// Bounds in seconds since the due time. The last one is a day, because a failed job may have
/// waited that long.
const SECONDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0,
    21600.0, 86400.0,
];

/// Lateness of the jobs popped through this server.
pub struct Lateness {
    /// The last hour: for each minute, its number since the Unix epoch and its histogram.
    minutes: Mutex<VecDeque<(u64, Histogram<u32>)>>,
    /// All pops since the start.
    seconds: Buckets,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { minutes: Mutex::default(), seconds: Buckets::new(SECONDS) }
    }
}

/// Lateness of the jobs that were popped in one minute, in seconds, to within one percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LateMinute {
    /// When the minute began.
    pub at: UnixMillis,
    /// The number of jobs that were popped.
    pub popped: u64,
    /// The median.
    pub p50: Millis,
    /// The 99th percentile.
    pub p99: Millis,
    /// The maximum.
    pub max: Millis,
}

impl Lateness {
    pub fn seconds(&self) -> Buckets {
        self.seconds.clone()
    }

    /// Counts jobs delivered `now`, each with its due and pop times by the store's clock.
    pub fn count(&self, now: UnixMillis, pops: impl Iterator<Item = (UnixMillis, UnixMillis)>) {
        let minute = now.get() / MINUTE;
        let mut minutes = self.lock();
        // Drops minutes that are in the future, which remain if the clock was ahead for a while.
        while minutes.back().is_some_and(|(last, _)| *last > minute) {
            minutes.pop_back();
        }
        for (due_at, popped_at) in pops {
            let late = popped_at.since(due_at).get();
            self.seconds.observe(late as f64 / 1_000.0);
            if minutes.back().is_none_or(|(last, _)| *last < minute) {
                let histogram = Histogram::new_with_max(LATEST, 2).expect("bounds that are valid");
                minutes.push_back((minute, histogram));
                if minutes.len() > MINUTES {
                    minutes.pop_front();
                }
            }
            if let Some((_, histogram)) = minutes.back_mut() {
                histogram.saturating_record(late);
            }
        }
    }

    /// Returns the minutes of the hour before `now` in which jobs were popped, oldest first.
    pub fn minutes(&self, now: UnixMillis) -> Vec<LateMinute> {
        let first = (now.get() / MINUTE).saturating_sub(MINUTES as u64 - 1);
        let minutes = self.lock();
        let of = |(minute, histogram): &(u64, Histogram<u32>)| LateMinute {
            at: UnixMillis::new(minute * MINUTE),
            popped: histogram.len(),
            p50: Millis::new(histogram.value_at_quantile(0.5)),
            p99: Millis::new(histogram.value_at_quantile(0.99)),
            max: Millis::new(histogram.max()),
        };
        minutes.iter().filter(|(minute, _)| *minute >= first).map(of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Histogram<u32>)>> {
        self.minutes.lock().expect("no thread panics while holding this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pops_are_counted_by_the_minute_and_an_hour_is_kept() {
        let lateness = Lateness::default();
        let begin = 1_800_000_000_000;
        for minute in 0..100 {
            let at = UnixMillis::new(begin + minute * MINUTE);
            let due = |late: u64| (UnixMillis::new(at.get() - late), at);
            lateness.count(at, (1..=100).map(due));
        }
        let minutes = lateness.minutes(UnixMillis::new(begin + 99 * MINUTE + 59_999));
        assert_eq!(minutes.len(), MINUTES);
        let last = minutes.last().expect("a minute");
        assert_eq!((last.at.get(), last.popped), (begin + 99 * MINUTE, 100));
        assert_eq!((last.p50.get(), last.p99.get(), last.max.get()), (50, 99, 100));
        // Minutes without pops are left out.
        assert_eq!(lateness.minutes(UnixMillis::new(begin + 130 * MINUTE)).len(), 29);
    }

    #[test]
    fn minutes_of_a_clock_that_was_ahead_are_dropped() {
        let lateness = Lateness::default();
        let at = |minute: u64| UnixMillis::new(1_800_000_000_000 + minute * MINUTE);
        let count = |minute: u64| lateness.count(at(minute), [(at(0), at(1))].into_iter());
        let shown = |now: u64| -> Vec<(u64, u64)> {
            let minutes = lateness.minutes(at(now));
            minutes.iter().map(|one| (one.at.since(at(0)).get() / MINUTE, one.popped)).collect()
        };
        count(1);
        count(2);
        for _ in 0..5 {
            count(20_000);
        }
        count(2);
        count(3);
        assert_eq!(shown(3), [(1, 1), (2, 2), (3, 1)]);
    }
}
