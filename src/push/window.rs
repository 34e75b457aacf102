//! Results of the last minute, by second.

use std::time::{Duration, Instant};

/// Number of seconds that a window remembers.
const SECONDS: usize = 60;

/// Results of some seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Results {
    /// Requests that were accepted.
    pub delivered: u32,
    /// Requests that failed.
    pub failed: u32,
    /// Requests that failed because of the target.
    pub unavailable: u32,
    /// Time of all requests together.
    pub time: Duration,
}

impl Results {
    /// Returns the number of requests.
    pub fn count(&self) -> u32 {
        self.delivered + self.failed
    }

    fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.unavailable += other.unavailable;
        self.time += other.time;
    }
}

/// Results of the last minute.
pub struct Window {
    start: Instant,
    /// Second `n` since `start`, at the index `n` modulo 60, and its results.
    slots: [(u64, Results); SECONDS],
}

impl Window {
    pub fn new(start: Instant) -> Self {
        Self { start, slots: [(0, Results::default()); SECONDS] }
    }

    /// Adds the results of requests that ended now.
    pub fn record(&mut self, now: Instant, results: Results) {
        let second = self.second(now);
        let slot = &mut self.slots[index(second)];
        if slot.0 != second {
            *slot = (second, Results::default());
        }
        slot.1.add(results);
    }

    /// Returns the results of the last `seconds` seconds, including the current one.
    pub fn last(&self, now: Instant, seconds: u64) -> Results {
        let second = self.second(now);
        let mut all = Results::default();
        let is_recent = |slot: &&(u64, Results)| slot.0 <= second && second - slot.0 < seconds;
        self.slots.iter().filter(is_recent).for_each(|slot| all.add(slot.1));
        all
    }

    /// Returns accepted and failed requests a second over the last minute, or since the start.
    pub fn rates(&self, now: Instant) -> (f64, f64) {
        let all = self.last(now, SECONDS as u64);
        let age = now.saturating_duration_since(self.start).as_secs_f64();
        let seconds = age.clamp(1.0, SECONDS as f64);
        (f64::from(all.delivered) / seconds, f64::from(all.failed) / seconds)
    }

    /// Returns the mean time of a request over the last minute; `None` without requests.
    pub fn mean(&self, now: Instant) -> Option<Duration> {
        let all = self.last(now, SECONDS as u64);
        all.time.checked_div(all.count())
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs()
    }
}

fn index(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_forgotten_after_a_minute() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut window = Window::new(start);
        let time = Duration::from_millis(10);
        let one = Results { delivered: 1, failed: 1, unavailable: 1, time };
        window.record(at(0), one);
        window.record(at(5), one);
        window.record(at(59), one);
        assert_eq!(window.last(at(59), 60).count(), 6);
        assert_eq!(window.last(at(14), 10).count(), 2);
        assert_eq!(window.last(at(15), 10).count(), 0);
        assert_eq!(window.last(at(60), 60).unavailable, 2);
        window.record(at(65), one);
        assert_eq!(window.last(at(65), 60).count(), 4);
        assert_eq!(window.mean(at(65)), Some(Duration::from_millis(5)));
        assert_eq!(window.rates(at(4000)), (0.0, 0.0));
    }
}
