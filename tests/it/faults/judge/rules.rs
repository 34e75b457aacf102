//! Rules on one job: its holders, its attempts and its end.

use crate::faults::judge::{
    Object, Trouble,
    job::{Delivered, Job, is_before, is_end, reservation},
    meets,
};
use crate::faults::prelude::*;

/// Forbids a later delivery while an earlier one certainly holds the job.
pub fn holders(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for &held in job.deliveries.iter().filter(|held| times_are_right(job, **held, wrong_clock)) {
        for given in job.after(held) {
            let (until, until_at) = job.held_until(held, given.pop.end);
            let lapsed = (!wrong_clock.is_empty() || given.popped_at() >= until_at)
                && given.pop.end >= until;
            if !lapsed && !job.may_have_ended_hold(held, given.pop.end, given.pop) {
                let (one, other) = (held.job.attempt, given.job.attempt);
                let since = given.popped_at();
                let what = format!("attempt {one} holds until {until_at}, {other} since {since}");
                object(Rule::TwoHolders, what);
            }
        }
    }
}

/// Returns whether the store's clock was right at the begin of this reservation, and at each touch
/// of it.
fn times_are_right(job: &Job, held: Delivered, wrong_clock: &[(Time, Time)]) -> bool {
    let touch = |act: &&Call| matches!(act.ask, Ask::Touch { .. });
    let own = |act: &&Call| reservation(act) == Some(&*held.job.reservation);
    let mut touches = job.possibly_applied().filter(touch).filter(own);
    !meets(wrong_clock, held.pop) && !touches.any(|act| meets(wrong_clock, act))
}

/// Requires that attempts that count grow from delivery to delivery, each with its own reservation,
/// up to the limit.
pub fn attempts(job: &Job, object: &mut impl Object) {
    let limit = job.max_attempts();
    for (n, &one) in job.deliveries.iter().enumerate() {
        let attempt = one.job.attempt;
        if attempt == 0 || attempt > limit {
            object(Rule::Attempts, format!("attempt {attempt} of {limit}"));
        }
        for &other in &job.deliveries[n + 1..] {
            let wrong = !job.may_precede(one, other) && !job.may_precede(other, one);
            if other.job.reservation == one.job.reservation {
                object(Rule::TwoHolders, format!("one reservation twice, attempt {attempt}"));
            }
            if wrong && job.no_reset_between(one, other) {
                object(Rule::Attempts, format!("attempts {attempt}, then {}", other.job.attempt));
            }
        }
    }
}

/// Requires a delivery for each attempt that counts, unless a pop may have lost its answer.
pub fn counted_attempts(job: &Job, trouble: &Trouble, object: &mut impl Object) {
    let put = job.puts.iter().map(|put| put.start).min().unwrap_or_default();
    for &given in &job.deliveries {
        let reset = job.last_effective_kick(given).max(job.moved_after(given));
        let life = reset.unwrap_or(put);
        let earlier = job.deliveries.iter().copied().filter(|one| one.pop.end >= life);
        let earlier = earlier.filter(|one| job.may_precede(*one, given));
        let earlier = earlier.filter(|one| !job.is_uncounted(*one)).count();
        let attempt = given.job.attempt;
        if attempt as usize > earlier + 1 && !trouble.between(life, given.pop.end) {
            object(Rule::Attempts, format!("attempt {attempt} after {earlier}"));
        }
    }
}

/// Requires that an acknowledged end is final, and that only the consumer with the job ended or
/// touched it.
pub fn ends(job: &Job, object: &mut impl Object) {
    for call in job.acts.iter().filter(|call| call.done()) {
        let (held, name) = (job.held_by(call), call.ask.name());
        let ends = is_end(&call.ask);
        for &given in &job.deliveries {
            let later = held.is_some_and(|held| job.is_after(given, held));
            if later && given.pop.end <= call.start {
                let attempt = given.job.attempt;
                object(Rule::StaleAccepted, format!("{name} after attempt {attempt} had it"));
            } else if ends && (later || given.pop.start >= call.end) {
                let (start, end) = (given.pop.start, call.end);
                object(Rule::AfterTheEnd, format!("{name} at {end:?}, popped at {start:?}"));
            }
        }
        if let Some(held) = held
            && job.changes().any(|change| held.pop.end <= change.start && is_before(change, call))
        {
            let what = format!("{name} at {:?} by a hold that a change ended", call.start);
            object(Rule::StaleAccepted, what);
        }
        if !ends && job.certainly_ended().any(|end| is_before(end, call)) {
            object(Rule::AfterTheEnd, format!("{name} at {:?}", call.start));
        }
    }
    if job.certainly_ended().count() > 1 {
        object(Rule::AfterTheEnd, "ended twice".to_owned());
    }
}

/// Forbids refusals that the job's state cannot explain.
pub fn refusals(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for call in &job.acts {
        let gone = call.refused("job_not_found") || call.refused("job_finished");
        let lost = call.refused("reservation_lost");
        let name = call.ask.name();
        let was_there = job.puts.iter().any(|put| is_before(put, call));
        let ended = job.possibly_ended().any(|end| end.start < call.end);
        if gone && was_there && !ended {
            object(Rule::Lost, format!("{name} finds no job at {:?}", call.end));
        }
        let held = reservation(call).and_then(|reservation| job.given(reservation));
        let Some(held) = held.filter(|_| gone || lost) else { continue };
        if !times_are_right(job, held, wrong_clock) {
            continue;
        }
        let (until, _) = job.held_until(held, call.start);
        let live = call.end < until;
        if live && !job.may_have_ended_hold(held, call.end, call) {
            let attempt = held.job.attempt;
            object(Rule::LiveRefused, format!("{name} by attempt {attempt} at {:?}", call.end));
        }
    }
    for put in job.refused_puts.iter().filter(|put| put.refused("job_exists")) {
        if !job.puts.iter().any(|other| other.start < put.end) {
            object(Rule::NeverPut, "its only put says that it exists".to_owned());
        }
    }
}

/// Forbids two accepted puts of one id. Ids that are put again stay taken, unless a change of the
/// clock ends their retention.
pub fn puts(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    let accepted = job.puts.iter().filter(|put| put.done()).count();
    let mut deletes = job.possibly_applied().filter(|act| matches!(act.ask, Ask::Delete { .. }));
    if accepted > 1 && wrong_clock.is_empty() && deletes.next().is_none() {
        object(Rule::Twice, format!("{accepted} puts were accepted"));
    }
}

/// Requires that each accepted job was either ended or is stored.
pub fn account(job: &Job, object: &mut impl Object) {
    let stored = job.stored.is_some();
    if job.accepted() && !stored && job.possibly_ended().next().is_none() {
        let deliveries = job.deliveries.len();
        object(Rule::Lost, format!("accepted, delivered {deliveries} times, never ended"));
    }
    if stored && job.certainly_ended().next().is_some() {
        object(Rule::AfterTheEnd, format!("still stored: {:?}", job.stored));
    }
}

/// Requires one pool record and one set per job; an attempt record needs a pool record.
pub fn sets(job: &Job, object: &mut impl Object) {
    if let Some(stored) = job.stored
        && (stored.bodies.len() != 1 || stored.sets.len() != 1 || stored.attempts > 1)
    {
        object(Rule::Sets, format!("{stored:?}"));
    }
}
