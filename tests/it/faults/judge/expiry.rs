//! Rules on expiry and death: no job is delivered after it has expired, and each dead job has a
//! reason.

use crate::faults::judge::{
    LATE, Object, Trouble,
    job::{Delivered, Job},
    schedule::{due_after, moved_to},
};
use crate::faults::prelude::*;

/// Forbids deliveries and releases of jobs that have expired, by the clients' clock and by the
/// store's. A store whose clock was set back lets jobs expire later.
pub fn expiries(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    if !wrong_clock.is_empty() {
        return;
    }
    let latest = latest(job);
    for given in &job.deliveries {
        let Delivered { pop, job: delivery } = given;
        // A store compares the begun millisecond, and counts the reservation from the next one.
        if let Some(at) = delivery.expires_at.filter(|at| given.popped_at() > *at) {
            object(Rule::Expired, format!("popped {}, expires {at}", given.popped_at()));
        } else if let Some(at) = latest.filter(|at| pop.start > *at && !job.has_moved(*given)) {
            object(Rule::Expired, format!("a pop at {:?} got it, expired by {at:?}", pop.start));
        }
        // A move removes the expiry.
        let told = if job.has_moved(*given) { Some(None) } else { told(job) };
        if told.is_some_and(|told| told != delivery.expires_at) {
            let shown = delivery.expires_at;
            object(Rule::Expired, format!("shown to expire at {shown:?}, put for {told:?}"));
        }
    }
    for call in &job.acts {
        let StoreResult::Done(Answer::Released { due_at, fate: Fate::Alive }) = call.outcome else {
            continue;
        };
        let expires_at = job.held_by(call).and_then(|held| held.job.expires_at);
        if expires_at.is_some_and(|at| due_at >= at) {
            let what = format!("released until {due_at}, expires {expires_at:?}, and lives");
            object(Rule::Expired, what);
        }
    }
}

/// Requires a reason for the death of a stored job. `end` is the end of the last call; the scan
/// followed soon after it.
pub fn deaths(
    job: &Job,
    (trouble, end): (&Trouble, Time),
    wrong_clock: &[(Time, Time)],
    object: &mut impl Object,
) {
    let Some(stored) = job.stored.filter(|stored| !job.puts.is_empty() && stored.is_dead()) else {
        return;
    };
    // After a move the job does not expire, and its deliveries before the move are no reason.
    let has_moved = job.is_stored_elsewhere();
    let earliest = if has_moved { None } else { earliest(job, wrong_clock) };
    let may_have_expired = earliest.is_some_and(|at| at <= end + LATE);
    if stored.is_expired && !may_have_expired {
        object(Rule::Expired, format!("dead as expired, and expires at {earliest:?} or later"));
    }
    let put = job.puts.iter().map(|put| put.start).min().unwrap_or_default();
    let limit = job.max_attempts();
    let here = |given: Delivered| job.has_moved(given) == has_moved;
    let mut deliveries = job.deliveries.iter().filter(|given| here(**given));
    let is_spent = deliveries.any(|given| given.job.attempt >= limit);
    let acts = |is: fn(&Ask) -> bool| {
        job.possibly_applied().any(|act| is(&act.ask) && job.held_by(act).is_none_or(here))
    };
    // A late release replaces the error of an expired job.
    let is_replaced = || acts(|ask| matches!(ask, Ask::Release { .. }));
    let has_reason = is_spent
        || acts(|ask| matches!(ask, Ask::Bury { .. }))
        || (may_have_expired && (stored.is_expired || is_replaced()))
        || trouble.between(put, end);
    if !has_reason {
        object(Rule::Dead, format!("dead without a reason: {stored:?}"));
    }
}

/// Returns the time at which the job expires at the earliest by the clients' clock; none if never.
/// While the store's clock is wrong, a job may expire at any time: a release or the end of a TTR
/// may put its next attempt off by days.
pub fn earliest(job: &Job, wrong_clock: &[(Time, Time)]) -> Option<Time> {
    let after = expires_after(job)?;
    let put = job.puts.iter().map(|put| put.start).min().unwrap_or_default();
    if wrong_clock.iter().any(|(_, until)| *until >= put) {
        return Some(put);
    }
    let puts = job.puts.iter().filter_map(|put| match put.ask {
        Ask::Put { delay, .. } => Some(due_after(put, delay, wrong_clock)),
        _ => None,
    });
    let moves = job.possibly_applied().filter_map(|act| moved_to(act, wrong_clock));
    puts.chain(moves).map(|due| due + after).min()
}

/// Returns the time by which the job has certainly expired by the clients' clock; none if it does
/// not expire, or if a call without an answer may have moved that time.
fn latest(job: &Job) -> Option<Time> {
    let after = expires_after(job)?;
    let moves = job.possibly_applied().filter(|act| moved_to(act, &[]).is_some());
    let ends = job.puts.iter().copied().chain(moves).map(|call| match call.ask {
        Ask::Put { delay, .. } | Ask::Reschedule { delay, .. } if call.done() => {
            Some(call.end + delay + after)
        }
        _ if call.done() => Some(call.end + after),
        _ => None,
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Returns when the job expires by the answer to its put; none if that is not certain.
fn told(job: &Job) -> Option<Option<i64>> {
    let [put] = job.puts[..] else { return None };
    let StoreResult::Done(Answer::Put { due_at, .. }) = put.outcome else { return None };
    if job.possibly_applied().any(|act| moved_to(act, &[]).is_some()) {
        return None;
    }
    let after = expires_after(job);
    Some(after.map(|after| due_at + i64::try_from(after.as_millis()).unwrap_or(i64::MAX)))
}

/// Returns the time from the due time of a job until it expires; all puts of an id have the same.
fn expires_after(job: &Job) -> Option<Time> {
    job.puts.iter().find_map(|put| match put.ask {
        Ask::Put { expires_after, .. } => expires_after,
        _ => None,
    })
}
