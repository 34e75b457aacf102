//! Notices when a store's clock jumps, by this process's monotonic clock.
//!
//! A wall clock can jump: a wrong time server, a virtual machine that was suspended, a failover to
//! a machine that is out of step. A jump forward would promote jobs long before their time and
//! delete dead ones for ever. So promotion goes by the earlier of two times: what the store's clock
//! says, and what it should say by the monotonic time that went by since it was read last. After
//! a jump the second one goes on by the old clock until the new one has been steady for
//! [`STEADY_FOR`]. A jump back needs no such care: it makes jobs late, never early.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::Now;
use crate::job::UnixMillis;

/// A difference up to this is no jump: clocks are set right by small steps.
const TOLERANCE: Duration = Duration::from_secs(3);
/// How long a clock must go on without another jump until it is believed.
const STEADY_FOR: Duration = Duration::from_secs(60);

/// Follows the clocks of a store: one source for each that may differ from the others.
pub struct ClockWatch {
    state: Mutex<State>,
}

struct State {
    /// By source; none until it was read.
    sources: Vec<Option<Source>>,
    jumps: u64,
    last_jump: Option<Jump>,
}

/// One clock.
#[derive(Clone, Copy)]
struct Source {
    /// As it was read last.
    seen: Reading,
    /// The reading that is believed: the last one, or the last one before a jump. If the last one is
    /// earlier, then that is believed.
    trusted: Reading,
    jumped_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Reading {
    /// Unix time in microseconds.
    micros: u64,
    /// When the answer was there.
    at: Instant,
    /// How long before that it may have been read.
    slack: Duration,
}

/// What a clock should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Believed {
    /// The latest time that is no jump.
    pub latest: UnixMillis,
    /// What is believed instead of a later one. A clock that has jumped is not believed up to the
    /// tolerance either: what is due within it would be early.
    pub expected: UnixMillis,
}

#[derive(Clone, Copy)]
struct Jump {
    at: Instant,
    /// In microseconds; negative if back.
    by: i64,
}

/// How a store's clock has behaved in this process's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockJumps {
    /// How often it has jumped.
    pub count: u64,
    /// It has jumped and has not been steady long enough since.
    pub unsteady: bool,
}

impl Reading {
    /// What the clock should say at a later time.
    fn expected(self, at: Instant) -> u64 {
        self.micros.saturating_add(micros(at.saturating_duration_since(self.at)))
    }

    /// How far a later reading is from what was expected, in microseconds.
    fn deviation(self, later: Self) -> i64 {
        later.micros.cast_signed().saturating_sub(self.expected(later.at).cast_signed())
    }

    /// How far it may be without a jump, for a given tolerance.
    fn allowed(self, later: Self, tolerance: Duration) -> u64 {
        micros(tolerance + self.slack + later.slack)
    }
}

impl ClockWatch {
    pub fn new(sources: usize) -> Self {
        let state = State { sources: vec![None; sources], jumps: 0, last_jump: None };
        Self { state: Mutex::new(state) }
    }

    /// Takes a reading of a source that was asked at `asked` and has just answered. Answers by how
    /// many microseconds the clock was set since the reading before, 0 if that may be the way's. How
    /// long ago it was read is not known to more than the way's time, so it is told as the latest that it
    /// may be: what moves with the clock ends late rather than early.
    pub fn saw(&self, source: usize, micros: u64, asked: Instant) -> i64 {
        let at = Instant::now();
        self.take(source, Reading { micros, at, slack: at.saturating_duration_since(asked) })
    }

    fn take(&self, source: usize, reading: Reading) -> i64 {
        let mut state = self.lock();
        let Some(known) = &mut state.sources[source] else {
            let first = Source { seen: reading, trusted: reading, jumped_at: None };
            state.sources[source] = Some(first);
            return 0;
        };
        let before = known.seen;
        let by = before.deviation(reading);
        let jumped = by.unsigned_abs() > before.allowed(reading, TOLERANCE);
        let slack = micros(before.slack + reading.slack);
        known.seen = reading;
        if jumped {
            known.jumped_at = Some(reading.at);
        }
        let back = known.trusted.deviation(reading).unsigned_abs();
        if known.is_steady(reading.at) {
            *known = Source { seen: reading, trusted: reading, jumped_at: None };
        } else if back <= known.trusted.allowed(reading, TOLERANCE) {
            known.trusted = reading; // it is right again
        } else if jumped && before.expected(reading.at) < known.trusted.expected(reading.at) {
            // What was trusted had been set back, so it may have been the wrong one.
            known.trusted = before;
        }
        if jumped {
            state.note(source, Jump { at: reading.at, by });
        }
        if by.unsigned_abs() > slack {
            by.saturating_add_unsigned(micros(reading.slack))
        } else {
            0
        }
    }

    /// What a source should show; none before it was read.
    pub fn believed(&self, source: usize) -> Option<Believed> {
        self.believed_at(source, Instant::now())
    }

    fn believed_at(&self, source: usize, at: Instant) -> Option<Believed> {
        let known = self.lock().sources[source]?;
        let expected = known.trusted.expected(at).min(known.seen.expected(at));
        let tolerance = if known.is_steady(at) { micros(TOLERANCE) } else { 0 };
        let time = |micros: u64| UnixMillis::new(micros / 1_000);
        Some(Believed {
            latest: time(expected.saturating_add(tolerance)),
            expected: time(expected),
        })
    }

    /// The time by which to promote: `now`, or an earlier one after a jump.
    pub fn bounded(&self, source: usize, now: Now) -> Now {
        match self.believed(source) {
            Some(Believed { latest, expected }) if latest < now.floor => {
                let micros = expected.get().saturating_mul(1_000);
                Now { floor: expected, ceil: expected, micros, believed: expected }
            }
            _ => now,
        }
    }

    pub fn jumps(&self) -> ClockJumps {
        let state = self.lock();
        let unsteady = state.last_jump.is_some_and(|jump| jump.at.elapsed() < STEADY_FOR);
        ClockJumps { count: state.jumps, unsteady }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source {
    fn is_steady(&self, at: Instant) -> bool {
        self.jumped_at.is_none_or(|jump| at.saturating_duration_since(jump) >= STEADY_FOR)
    }
}

impl State {
    /// Counts and logs a jump; buckets of one server notice the same one.
    fn note(&mut self, source: usize, jump: Jump) {
        let same = |last: Jump| {
            jump.at.saturating_duration_since(last.at) < STEADY_FOR
                && last.by.abs_diff(jump.by) < micros(TOLERANCE)
        };
        if !self.last_jump.replace(jump).is_some_and(same) {
            self.jumps += 1;
            let seconds = jump.by / 1_000_000;
            tracing::error!(
                bucket = source,
                seconds,
                "the store's clock jumped: jobs that were put or popped meanwhile have wrong times; until it has \
                 been steady for {} s, deadlines are judged by the clock before",
                STEADY_FOR.as_secs()
            );
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
