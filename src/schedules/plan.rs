//! Plans the step of a schedule whose next instant has been reached.

use recurrence::Timing;

use super::Missed;
use crate::job::{Millis, UnixMillis};

/// An instant that is overdue by more than this is missed.
const GRACE: Millis = Millis::new(60_000);
/// Maximum number of missed instants whose jobs are put.
const MAX_MISSED: u64 = 1_000;
/// Maximum number of missed instants that are counted in a step, since counting takes time.
const MAX_COUNTED: u64 = 1_000;

/// Time before an instant is missed in which a refused put is tried each second. A call without an
/// answer and the pause after an error delay a try by up to ten seconds.
const LAST_TRIES: Millis = Millis::new(15_000);

/// A step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The instant whose job is put; `None` if there is none to put.
    pub put: Option<UnixMillis>,
    /// The next instant; `None` if the schedule has ended.
    pub next: Option<UnixMillis>,
    /// Number of instants that were missed and are left out; at most [`MAX_COUNTED`] are counted.
    pub missed: u64,
}

/// Plans the step of a schedule whose next instant is `next`, which has been reached at `now`. If
/// instants were left out since its last put, `is_behind`.
///
/// `catching_up` has the first and the last of the missed instants that are put one after the
/// other; the caller passes it from one step to the next.
pub fn step(
    timing: &Timing,
    missed: Missed,
    next: UnixMillis,
    now: UnixMillis,
    is_behind: bool,
    catching_up: &mut Option<(UnixMillis, UnixMillis)>,
) -> Step {
    let put = |instant: UnixMillis, missed| Step {
        put: Some(instant),
        next: timing.next_after(instant.get()).map(UnixMillis::new),
        missed,
    };
    let is_catching_up = catching_up.is_some_and(|(first, last)| first <= next && next <= last);
    let is_missed = is_missed(next, now) || missed == Missed::Once && is_behind;
    if !is_missed || missed == Missed::All && is_catching_up {
        return put(next, 0);
    }
    let until = match missed {
        Missed::Once => now.get(),
        Missed::None | Missed::All => now.before(GRACE).get().saturating_sub(1),
    };
    // The last one is at least `next`, unless the timing has another form now.
    let last = timing.last_until(until).map_or(next, UnixMillis::new).max(next);
    match missed {
        Missed::None => {
            let missed = count(timing, next, last);
            Step { put: None, missed, next: timing.next_after(last.get()).map(UnixMillis::new) }
        }
        Missed::Once => put(last, count(timing, next, last).saturating_sub(1)),
        Missed::All => {
            let mut first = last;
            for _ in 1..MAX_MISSED {
                let earlier = timing.last_until(first.get().saturating_sub(1)).map(UnixMillis::new);
                match earlier.filter(|earlier| *earlier >= next) {
                    Some(earlier) => first = earlier,
                    None => break,
                }
            }
            *catching_up = Some((first, last));
            let left_out =
                if first > next { count(timing, next, first).saturating_sub(1) } else { 0 };
            put(first, left_out)
        }
    }
}

/// Returns whether an instant is missed.
pub fn is_missed(instant: UnixMillis, now: UnixMillis) -> bool {
    now.since(instant) > GRACE
}

/// Returns the time at which a refused put must be tried again at the latest, so that no instant is
/// missed without a try; `None` if the jobs of missed instants are put anyway, or none follows.
pub fn last_try(
    timing: &Timing,
    missed: Missed,
    next: UnixMillis,
    now: UnixMillis,
) -> Option<UnixMillis> {
    let first = match missed {
        Missed::All => None,
        Missed::Once | Missed::None if !is_missed(next, now) => Some(next),
        // The job of the latest instant is put at any time.
        Missed::Once => None,
        Missed::None => {
            let before = now.before(GRACE).get().saturating_sub(1);
            timing.next_after(before).map(UnixMillis::new)
        }
    };
    first.map(|first| first.after(GRACE).before(LAST_TRIES))
}

/// Counts the instants from `first` to `last`, up to the maximum.
fn count(timing: &Timing, first: UnixMillis, last: UnixMillis) -> u64 {
    let (mut at, mut count) = (first.get(), 1);
    while count < MAX_COUNTED
        && let Some(next) = timing.next_after(at).filter(|next| *next <= last.get())
    {
        (at, count) = (next, count + 1);
    }
    count
}

#[cfg(test)]
mod tests;
