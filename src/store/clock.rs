//! The clock that decides which deadlines have passed. Only this module reads it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use crate::job::{Due, MAX_DURATION, Millis, Refusal, Schedule, UnixMillis};

/// Source of a store's time.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The store's own clock: this machine's for the file store, the server's `TIME` on Redis.
    #[default]
    Own,
    /// A time set by a test, so that it need not sleep.
    Set(Arc<AtomicU64>),
}

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

impl Clock {
    /// Returns a clock that stands at `time` until it is moved.
    pub fn set_at(time: UnixMillis) -> Self {
        Self::Set(Arc::new(AtomicU64::new(time.get())))
    }

    /// Moves a set clock by `span`.
    ///
    /// # Panics
    /// The clock is the store's own, which cannot be moved.
    pub fn advance(&self, span: Millis) {
        match self {
            Self::Set(time) => time.fetch_add(span.get(), Ordering::SeqCst),
            Self::Own => panic!("only a set clock can be moved"),
        };
    }

    /// Returns the set time, if this clock is set.
    pub fn given(&self) -> Option<UnixMillis> {
        match self {
            Self::Set(time) => Some(UnixMillis::new(time.load(Ordering::SeqCst))),
            Self::Own => None,
        }
    }

    /// Reads this machine's clock, or returns the set time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn now(&self) -> Now {
        if let Some(time) = self.given() {
            let micros = time.get().saturating_mul(1_000);
            return Now { floor: time, ceil: time, micros, believed: time };
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let floor = UnixMillis::new(whole(since.as_millis()));
        Now {
            floor,
            ceil: UnixMillis::new(whole(since.as_nanos().div_ceil(1_000_000))),
            micros: whole(since.as_micros()),
            believed: floor,
        }
    }
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
