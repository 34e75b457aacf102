//! Percentiles of durations. A run prints them, but never fails because of them.

use std::{fmt, time::Duration};

/// Durations of all calls of a kind, in microseconds. Each call takes four bytes.
#[derive(Debug, Clone, Default)]
pub struct Durations(Vec<u32>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    pub count: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub p999: Duration,
    pub max: Duration,
}

impl Durations {
    pub fn add(&mut self, took: Duration) {
        self.0.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn percentiles(mut self) -> Percentiles {
        self.0.sort_unstable();
        let count = self.0.len();
        // The shortest duration that this many calls in a thousand do not exceed.
        let least = |thousandths: usize| {
            let rank = (count * thousandths).div_ceil(1000).max(1);
            Duration::from_micros(self.0.get(rank - 1).copied().unwrap_or_default().into())
        };
        Percentiles { count, p50: least(500), p99: least(990), p999: least(999), max: least(1000) }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, p50, p99, p999, max } = self;
        write!(f, "{count} calls, p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, max {max:.1?}")
    }
}

#[test]
fn percentiles_are_those_of_the_sorted_durations() {
    let mut durations = Durations::default();
    for n in (1..=2000).rev() {
        durations.add(Duration::from_millis(n));
    }
    let [p50, p99, p999, max] = [1000, 1980, 1998, 2000].map(Duration::from_millis);
    assert_eq!(durations.percentiles(), Percentiles { count: 2000, p50, p99, p999, max });
    assert_eq!(Durations::default().percentiles().max, Duration::ZERO);
}
