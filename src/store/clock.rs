//! The clock that decides which deadlines have passed. Only this module reads it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use delay_queue_core::Now;

use crate::job::{Millis, UnixMillis};

/// Source of a store's time.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The store's own clock: this machine's for the file store, the server's `TIME` on Redis.
    #[default]
    Own,
    /// A time set by a test, so that it need not sleep.
    Set(Arc<AtomicU64>),
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
