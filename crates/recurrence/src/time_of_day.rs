//! Times of day that match a cron line.

use croner::{CronComponent, CronPattern};

pub const DAY: i64 = 86_400;

/// Sets of seconds, minutes and hours, one bit per value. None is empty.
#[derive(Debug)]
pub struct TimesOfDay {
    seconds: u64,
    minutes: u64,
    hours: u64,
}

impl TimesOfDay {
    pub fn new(pattern: &CronPattern) -> Self {
        let [seconds, minutes, hours] =
            [&pattern.seconds, &pattern.minutes, &pattern.hours].map(bits);
        Self { seconds, minutes, hours }
    }

    /// Returns the first match from `from`, both in seconds since midnight.
    pub fn first(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = parts(from);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = lowest(self.seconds, second)
            {
                return Some(whole(hour, minute, second));
            }
            if let Some(minute) = lowest(self.minutes, minute + 1) {
                return Some(whole(hour, minute, lowest(self.seconds, 0)?));
            }
        }
        let hour = lowest(self.hours, hour + 1)?;
        Some(whole(hour, lowest(self.minutes, 0)?, lowest(self.seconds, 0)?))
    }

    /// Returns the last match until `to`, which is included.
    pub fn last(&self, to: i64) -> Option<i64> {
        let (hour, minute, second) = parts(to);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = highest(self.seconds, second + 1)
            {
                return Some(whole(hour, minute, second));
            }
            if let Some(minute) = highest(self.minutes, minute) {
                return Some(whole(hour, minute, highest(self.seconds, 60)?));
            }
        }
        let hour = highest(self.hours, hour)?;
        Some(whole(hour, highest(self.minutes, 60)?, highest(self.seconds, 60)?))
    }
}

/// Returns the values of a field of croner as a set.
pub fn bits(component: &CronComponent) -> u64 {
    component.values().into_iter().fold(0, |bits, value| bits | 1 << value)
}

/// Returns whether a set has a value below 64.
pub fn has(bits: u64, value: u32) -> bool {
    bits >> value & 1 == 1
}

/// Returns the lowest value of a set from `from`, which is at most 63.
pub fn lowest(bits: u64, from: u32) -> Option<u32> {
    let bits = bits >> from;
    (bits != 0).then(|| from + bits.trailing_zeros())
}

/// Returns the highest value of a set below `end`, which is at most 63.
pub fn highest(bits: u64, end: u32) -> Option<u32> {
    (bits & ((1 << end) - 1)).checked_ilog2()
}

fn parts(time: i64) -> (u32, u32, u32) {
    let time = time as u32;
    (time / 3600, time / 60 % 60, time % 60)
}

fn whole(hour: u32, minute: u32, second: u32) -> i64 {
    (hour * 3600 + minute * 60 + second).into()
}
