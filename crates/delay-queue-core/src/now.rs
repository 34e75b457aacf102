//! A reading of a store's clock.

use crate::job::{Due, MAX_DURATION, Millis, Refusal, Schedule, UnixMillis};

/// A reading of the clock, rounded both ways. Deadlines are compared with `floor`, and new
/// deadlines count from `ceil`. So a delay is never shorter than requested, not even by a part of a
/// millisecond.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The last whole millisecond.
    pub floor: UnixMillis,
    /// The next whole millisecond.
    pub ceil: UnixMillis,
    /// Unix time in microseconds, from which timers compute their wait for a deadline.
    pub micros: u64,
    /// The last whole millisecond of the believed time, which is earlier than `floor` after a
    /// forward jump of the clock (see `clock_watch.rs`). Absolute times from clients are compared
    /// with it, since they do not come from this clock.
    pub believed: UnixMillis,
}

impl Now {
    /// Converts a Unix time in microseconds.
    pub fn of_micros(micros: u64) -> Self {
        let (floor, ceil) = (UnixMillis::new(micros / 1_000), micros.div_ceil(1_000));
        Self { floor, ceil: UnixMillis::new(ceil), micros, believed: floor }
    }

    /// Returns the due time of `schedule`, and whether the job is due. A time in the past becomes
    /// now. A delay counts from this clock; an absolute time is compared with the believed time.
    ///
    /// # Errors
    /// `DueTooFar` for a time more than ten years ahead.
    pub fn due(self, schedule: Schedule) -> Result<(UnixMillis, Due), Refusal> {
        match schedule {
            Schedule::In(Millis::ZERO) => Ok((self.floor, Due::Now)),
            Schedule::In(delay) => Ok((self.ceil.after(delay), Due::Later)),
            Schedule::At(time) if time.since(self.believed) > MAX_DURATION => {
                Err(Refusal::DueTooFar)
            }
            Schedule::At(time) if time > self.believed => Ok((time, Due::Later)),
            Schedule::At(_) => Ok((self.believed, Due::Now)),
        }
    }

    /// Returns the time of `end`; a span counts from now.
    pub fn end(self, end: Schedule) -> UnixMillis {
        match end {
            Schedule::In(span) => self.ceil.after(span),
            Schedule::At(time) => time,
        }
    }

    /// Returns whether `time` has been reached.
    pub fn reached(self, time: UnixMillis) -> Due {
        if time <= self.floor { Due::Now } else { Due::Later }
    }
}
