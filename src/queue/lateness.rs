//! How late jobs are handed out: from the due time to the pop, by the minute, for the last hour.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::job::{Millis, UnixMillis};

const MINUTE: u64 = 60_000;
/// How many minutes are kept.
const MINUTES: usize = 60;
/// A day: what is later counts as that.
const LATEST: u64 = 86_400_000;

/// The pops of the last hour that went through this server.
#[derive(Default)]
pub struct Lateness(Mutex<VecDeque<(u64, Histogram<u32>)>>);

/// The pops of one minute. Times are counted to within a hundredth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LateMinute {
    /// When the minute began.
    pub at: UnixMillis,
    /// How many jobs were popped.
    pub popped: u64,
    /// Half of them were no later than this.
    pub p50: Millis,
    /// 99 of 100 were no later than this.
    pub p99: Millis,
    /// The latest.
    pub max: Millis,
}

impl Lateness {
    /// Counts jobs by when each was due and popped.
    pub fn count(&self, pops: impl Iterator<Item = (UnixMillis, UnixMillis)>) {
        let mut minutes = self.lock();
        for (due_at, popped_at) in pops {
            let minute = popped_at.get() / MINUTE;
            // A clock that goes back does not begin a new minute.
            if minutes.back().is_none_or(|(last, _)| *last < minute) {
                let histogram = Histogram::new_with_max(LATEST, 2).expect("bounds that are valid");
                minutes.push_back((minute, histogram));
                if minutes.len() > MINUTES {
                    minutes.pop_front();
                }
            }
            if let Some((_, histogram)) = minutes.back_mut() {
                histogram.saturating_record(popped_at.since(due_at).get());
            }
        }
    }

    /// Minutes of the hour before `now` in which jobs were popped, in their order.
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
        self.0.lock().expect("no thread panics while holding this lock")
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
            lateness.count((1..=100).map(due));
        }
        let minutes = lateness.minutes(UnixMillis::new(begin + 99 * MINUTE + 59_999));
        assert_eq!(minutes.len(), MINUTES);
        let last = minutes.last().expect("a minute");
        assert_eq!((last.at.get(), last.popped), (begin + 99 * MINUTE, 100));
        assert_eq!((last.p50.get(), last.p99.get(), last.max.get()), (50, 99, 100));
        // Without pops, old minutes are not shown.
        assert_eq!(lateness.minutes(UnixMillis::new(begin + 130 * MINUTE)).len(), 29);
        lateness.count([(UnixMillis::new(0), UnixMillis::new(5))].into_iter());
        assert_eq!(lateness.minutes(UnixMillis::new(begin + 99 * MINUTE)).len(), MINUTES);
    }
}
