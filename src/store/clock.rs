//! The one clock that decides what is due. The only place in the crate that reads it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use crate::job::{Due, MAX_DURATION, Millis, Refusal, Schedule, UnixMillis};

/// Whose time a store goes by.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The store's own: this machine's for the file store, the server's `TIME` on Redis.
    #[default]
    Own,
    /// A time that a test sets, so that it need not sleep.
    Set(Arc<AtomicU64>),
}

/// One reading, rounded both ways: what has come is judged by `floor`, what is to come is counted
/// from `ceil`. So a delay is never shorter than asked, by no part of a millisecond.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The last whole millisecond.
    pub floor: UnixMillis,
    /// The next whole millisecond.
    pub ceil: UnixMillis,
    /// Unrounded, in microseconds: how far a deadline is, for those who sleep until it.
    pub micros: u64,
    /// The last whole millisecond of the time that is believed: an earlier one after a jump ahead (see
    /// [`ClockWatch`](super::ClockWatch)). By it a given time has come or not, which is none of this clock.
    pub believed: UnixMillis,
}

impl Clock {
    /// A clock that stands at `time` until it is set.
    pub fn set_at(time: UnixMillis) -> Self {
        Self::Set(Arc::new(AtomicU64::new(time.get())))
    }

    /// Moves a set clock by `span`.
    ///
    /// # Panics
    /// With the store's own clock, which no test moves.
    pub fn advance(&self, span: Millis) {
        match self {
            Self::Set(time) => time.fetch_add(span.get(), Ordering::SeqCst),
            Self::Own => panic!("only a set clock can be moved"),
        };
    }

    /// The set time, if this clock is set.
    pub fn given(&self) -> Option<UnixMillis> {
        match self {
            Self::Set(time) => Some(UnixMillis::new(time.load(Ordering::SeqCst))),
            Self::Own => None,
        }
    }

    /// The time by this machine's clock, unless it is set.
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
    /// A reading in microseconds after 1970.
    pub fn of_micros(micros: u64) -> Self {
        let (floor, ceil) = (UnixMillis::new(micros / 1_000), micros.div_ceil(1_000));
        Self { floor, ceil: UnixMillis::new(ceil), micros, believed: floor }
    }

    /// The due time of `schedule`, a past one is now; and whether it has come. A delay counts from this clock; a given
    /// time is judged by the time that is believed.
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

    /// The end of what lasts until `end`.
    pub fn end(self, end: Schedule) -> UnixMillis {
        match end {
            Schedule::In(span) => self.ceil.after(span),
            Schedule::At(time) => time,
        }
    }

    /// Whether `time` has come.
    pub fn reached(self, time: UnixMillis) -> Due {
        if time <= self.floor { Due::Now } else { Due::Later }
    }
}
