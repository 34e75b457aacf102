//! Percentiles of durations. A run prints them, but never fails because of them.

use std::time::Duration;

/// Durations of all calls of a kind, in microseconds. Each call takes four bytes.
#[derive(Debug, Clone, Default)]
pub struct Durations(Vec<u32>);

impl Durations {
    pub fn add(&mut self, took: Duration) {
        self.0.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns a text with the count and the percentiles.
    pub fn percentiles(mut self) -> String {
        self.0.sort_unstable();
        let count = self.0.len();
        // The shortest duration that this many calls in a thousand do not exceed.
        let least = |thousandths: usize| {
            let rank = (count * thousandths).div_ceil(1000).max(1);
            Duration::from_micros(self.0.get(rank - 1).copied().unwrap_or_default().into())
        };
        let [p50, p99, p999, max] = [500, 990, 999, 1000].map(least);
        format!("{count} calls, p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, max {max:.1?}")
    }
}

#[test]
fn percentiles_are_those_of_the_sorted_durations() {
    let mut durations = Durations::default();
    for n in (1..=2000).rev() {
        durations.add(Duration::from_micros(n * 100));
    }
    let told = "2000 calls, p50 100.0ms, p99 198.0ms, p99.9 199.8ms, max 200.0ms";
    assert_eq!(durations.percentiles(), told);
    assert!(Durations::default().percentiles().starts_with("0 calls"));
}
