//! Detects jumps of a store's clock: compares it with this process's monotonic clock.
//!
//! A wall clock can jump, for example because of a wrong time server, a virtual machine that was
//! suspended, or a failover to a machine with another time. A forward jump would promote jobs long
//! before their time, and delete dead jobs too early. So promotion uses the store's clock or the
//! expected time, whichever is earlier. The expected time is the last reading of the store's clock
//! plus the monotonic time that has passed since then. After a jump, the expected time follows the
//! old clock until the new one has been steady for [`STEADY_FOR`]. A jump back needs no such care,
//! because it makes jobs late, never early.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::Now;
use crate::job::{Millis, UnixMillis};

/// Largest difference that is not a jump: time servers correct clocks by small steps.
const TOLERANCE: Duration = Duration::from_secs(3);
/// Time without another jump after which a clock is trusted again.
pub const STEADY_FOR: Duration = Duration::from_secs(60);

/// Watch over the clocks of a store. Each clock that may differ from the others is a source.
pub struct ClockWatch {
    state: Mutex<State>,
}

struct State {
    /// State of each source; none before its first reading.
    sources: Vec<Option<Source>>,
    jumps: u64,
    last_jump: Option<Jump>,
}

#[derive(Clone, Copy)]
struct Source {
    seen: Reading,
    /// Trusted reading: the last one, or the last one before a jump. One expected time is computed
    /// from this reading and one from `seen`; the earlier one counts.
    trusted: Reading,
    jumped_at: Option<Instant>,
    /// Time of the last jump, or of the first reading; a jump that is over counts too.
    steady_since: Instant,
}

#[derive(Clone, Copy)]
struct Reading {
    /// Unix time in microseconds.
    micros: u64,
    /// Time at which the answer arrived.
    at: Instant,
    /// Greatest possible age of the reading at that time.
    slack: Duration,
}

/// The time that a clock should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Believed {
    /// Latest time that the clock may show without a jump.
    pub latest: UnixMillis,
    /// Time to use if the clock shows more than `latest`. It does not include the tolerance, which
    /// would make jobs early.
    pub expected: UnixMillis,
}

#[derive(Clone, Copy)]
struct Jump {
    at: Instant,
    /// Microseconds; negative for a jump back.
    by: i64,
}

/// Jumps of a store's clock that this process has noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockJumps {
    /// Number of jumps.
    pub count: u64,
    /// Whether the clock has not yet been steady for a minute since its last jump.
    pub unsteady: bool,
}

impl Reading {
    /// Returns the time that the clock should show at a later instant, in microseconds.
    fn expected(self, at: Instant) -> u64 {
        self.micros.saturating_add(micros(at.saturating_duration_since(self.at)))
    }

    /// Returns the difference of a later reading from the expected time, in microseconds.
    fn deviation(self, later: Self) -> i64 {
        later.micros.cast_signed().saturating_sub(self.expected(later.at).cast_signed())
    }

    /// Returns the largest deviation that is not a jump, in microseconds, for a given tolerance.
    fn allowed(self, later: Self, tolerance: Duration) -> u64 {
        micros(tolerance + self.slack + later.slack)
    }
}

impl ClockWatch {
    pub fn new(sources: usize) -> Self {
        let state = State { sources: vec![None; sources], jumps: 0, last_jump: None };
        Self { state: Mutex::new(state) }
    }

    /// Returns whether the last reading of a source is older than `age`, or missing.
    pub fn is_older(&self, source: usize, age: Duration) -> bool {
        self.lock().sources[source].is_none_or(|source| source.seen.at.elapsed() > age)
    }

    /// Takes a reading of a source that was requested at `asked` and has just arrived. Returns how
    /// far the clock was moved since the previous reading, in microseconds; 0 if latency may
    /// explain the difference. Because of latency, the amount is uncertain. This returns the
    /// greatest possible amount, so that reservations that move with the clock end late rather than
    /// early.
    pub fn add_reading(&self, source: usize, micros: u64, asked: Instant) -> i64 {
        let at = Instant::now();
        self.take(source, Reading { micros, at, slack: at.saturating_duration_since(asked) })
    }

    fn take(&self, source: usize, reading: Reading) -> i64 {
        let mut state = self.lock();
        let Some(known) = &mut state.sources[source] else {
            state.sources[source] = Some(Source::steady(reading, reading.at));
            return 0;
        };
        let before = known.seen;
        let by = before.deviation(reading);
        let jumped = by.unsigned_abs() > before.allowed(reading, TOLERANCE);
        let slack = micros(before.slack + reading.slack);
        known.seen = reading;
        if jumped {
            (known.jumped_at, known.steady_since) = (Some(reading.at), reading.at);
        }
        let back = known.trusted.deviation(reading).unsigned_abs();
        if known.is_steady(reading.at) {
            *known = Source::steady(reading, known.steady_since);
        } else if back <= known.trusted.allowed(reading, TOLERANCE) {
            known.trusted = reading; // the clock is right again
        } else if jumped && before.expected(reading.at) < known.trusted.expected(reading.at) {
            // Before this jump, the clock was behind the time that follows from the trusted
            // reading, so that reading may have been wrong.
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

    /// Returns the time that a source should show; none before its first reading.
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

    /// Returns when the last jump of any source was seen, or the first reading of the youngest one;
    /// none before the first reading.
    pub fn steady_since(&self) -> Option<Instant> {
        self.lock().sources.iter().flatten().map(|source| source.steady_since).max()
    }

    /// Returns the time to promote by: `now`, or an earlier one after a forward jump.
    pub fn bounded(&self, source: usize, now: Now) -> Now {
        match self.believed(source) {
            Some(Believed { latest, expected }) if latest < now.floor => {
                let micros = expected.get().saturating_mul(1_000);
                Now { floor: expected, ceil: expected, micros, believed: expected }
            }
            _ => now,
        }
    }

    /// Counts a clock that is behind the times of its store at the start, as after a jump back that
    /// no server saw.
    pub fn note_behind(&self, by: Millis) {
        let by = i64::try_from(by.get().saturating_mul(1_000)).unwrap_or(i64::MAX);
        let mut state = self.lock();
        state.jumps += 1;
        state.last_jump = Some(Jump { at: Instant::now(), by: -by });
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
    fn steady(reading: Reading, since: Instant) -> Self {
        Self { seen: reading, trusted: reading, jumped_at: None, steady_since: since }
    }

    fn is_steady(&self, at: Instant) -> bool {
        self.jumped_at.is_none_or(|jump| at.saturating_duration_since(jump) >= STEADY_FOR)
    }
}

impl State {
    /// Counts and logs a jump, once if several buckets of one server notice it.
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
                "the store's clock jumped: jobs that were put or popped while it was wrong have wrong times; until \
                 it has been steady for {} s, deadlines are compared with the time before the jump plus the time \
                 that has passed since",
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
