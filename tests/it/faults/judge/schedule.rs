//! Rules on due times: no job is delivered before its due time, by the clients' clock and by the
//! store's, whichever call set the due time; and no job is delivered while it is dead.

use crate::faults::judge::{
    Object,
    job::{Delivered, Job, is_before},
    meets,
};
use crate::faults::prelude::*;

/// Forbids deliveries before the due time of the put.
pub fn put_times(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    let told = job.puts.iter().filter_map(|put| match put.outcome {
        StoreResult::Done(Answer::Put { due_at, .. }) => Some(due_at),
        _ => None,
    });
    let told = told.min().unwrap_or_default();
    for given in &job.deliveries {
        let Delivered { pop, job: delivery } = given;
        let earlier = || job.possibly_applied().filter(|act| act.start < pop.end);
        let moves = || earlier().filter_map(|act| moved_to(act, wrong_clock));
        let put = job.puts.iter().filter_map(|put| match put.ask {
            Ask::Put { delay, .. } => Some(due_after(put, delay, wrong_clock)),
            _ => None,
        });
        let due = put.chain(moves()).min().unwrap_or_default();
        if pop.end < due {
            object(Rule::Early, format!("delivered at {:?}, due at {due:?}", pop.end));
        }
        let before_told = delivery.due_at < told && moves().next().is_none();
        let early = given.popped_at() < delivery.due_at || before_told;
        if wrong_clock.is_empty() && early {
            let due = delivery.due_at;
            object(Rule::Early, format!("popped {}, due {due}, told {told}", given.popped_at()));
        }
    }
}

/// Maximum difference between the clients' clock and a corrected clock of the store, until servers
/// adopt the latter.
const SET_RIGHT_WITHIN: Time = Time::from_millis(500);

/// Returns the end of a delay by the clients' clock, or the begin of the call if the store's clock
/// was wrong.
pub fn due_after(call: &Call, delay: Time, wrong_clock: &[(Time, Time)]) -> Time {
    match wrong_clock {
        [] => call.start + delay,
        _ if meets(wrong_clock, call) => call.start,
        _ => call.start + delay.saturating_sub(SET_RIGHT_WITHIN),
    }
}

/// Returns the earliest time at which a kick or reschedule makes the job due.
pub fn moved_to(act: &Call, wrong_clock: &[(Time, Time)]) -> Option<Time> {
    match act.ask {
        Ask::Kick { .. } => Some(act.start),
        Ask::Reschedule { delay, .. } => Some(due_after(act, delay, wrong_clock)),
        _ => None,
    }
}

/// Forbids deliveries before the due time of a release.
pub fn release_times(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for call in &job.acts {
        let StoreResult::Done(Answer::Released { due_at, fate }) = call.outcome else { continue };
        let Ask::Release { delay, .. } = &call.ask else { continue };
        let Some(held) = job.held_by(call) else { continue };
        // A job that moves is ready at once.
        let has_moved = matches!(fate, Fate::Moved(_));
        let due = if has_moved { call.start } else { due_after(call, *delay, wrong_clock) };
        // A delivery that ended before the release breaks another rule, since the release was
        // stale.
        for given in job.after(held).filter(|given| given.pop.end > call.start) {
            let end = given.pop.end;
            let moved = job.possibly_applied().any(|act| {
                moved_to(act, wrong_clock).is_some() && act.start < end && !is_before(act, call)
            });
            if !moved && (end < due || (wrong_clock.is_empty() && given.job.due_at < due_at)) {
                object(Rule::Early, format!("released until {due:?}, delivered at {end:?}"));
            }
        }
    }
}

/// Forbids deliveries before the due time of a reschedule.
pub fn reschedule_times(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for call in &job.acts {
        let StoreResult::Done(Answer::Rescheduled { due_at }) = call.outcome else { continue };
        let Ask::Reschedule { delay, .. } = &call.ask else { continue };
        let due = due_after(call, *delay, wrong_clock);
        for &given in &job.deliveries {
            let end = given.pop.end;
            // The last consumer may have released the job since, although its TTR had ended.
            let moved = job.possibly_applied().any(|act| {
                let moves =
                    moved_to(act, wrong_clock).is_some() || matches!(act.ask, Ask::Release { .. });
                let other = !std::ptr::eq(act, *call);
                moves && other && act.start < end && !is_before(act, call)
            });
            let early = end < due || (wrong_clock.is_empty() && given.job.due_at < due_at);
            if early && !moved && is_popped_after(job, given, call) {
                object(Rule::Early, format!("rescheduled to {due:?}, delivered at {end:?}"));
            }
        }
    }
}

/// Returns whether the job was certainly popped after the reschedule, which a reserved job refuses.
fn is_popped_after(job: &Job, given: Delivered, call: &Call) -> bool {
    let held = call.end < given.pop.start + given.job.ttr
        && !job.may_have_ended_hold(given, call.end, given.pop);
    given.pop.start >= call.end || (given.pop.end > call.start && held)
}

/// Forbids deliveries between a burial, or a release that ended in death, and a kick.
pub fn burials(job: &Job, object: &mut impl Object) {
    for call in job.acts.iter().filter(|call| call.fate() == Some(Fate::Dead)) {
        let held = job.held_by(call);
        for &given in job.deliveries.iter().filter(|given| given.pop.end > call.start) {
            let later = held.is_some_and(|held| job.is_after(given, held));
            let kicked =
                job.kicks().any(|kick| kick.start < given.pop.end && !is_before(kick, call));
            if !kicked && (later || given.pop.start >= call.end) {
                let (start, end) = (given.pop.start, call.end);
                object(Rule::Buried, format!("dead since {end:?}, popped at {start:?}"));
            }
        }
    }
}
