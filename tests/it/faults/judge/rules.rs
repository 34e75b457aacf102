//! The rules, each over what is known of one job.

use super::{Delivered, Job, Rule, reservation, text};
use crate::faults::history::{Answer, Ask, Call, StoreResult, Text, Time};

/// Takes an objection.
pub(super) trait Object: FnMut(Rule, String) {}
impl<F: FnMut(Rule, String)> Object for F {}

/// Only what was put, and as it was put.
pub(super) fn contents(job: &Job, object: &mut impl Object) {
    let body = |call: &Call| match &call.ask {
        Ask::Put { body, .. } => body.clone(),
        _ => Text::default(),
    };
    let first = job.puts.iter().map(|put| put.start).min();
    for Delivered { pop, job: given } in &job.deliveries {
        if first.is_none_or(|first| pop.end < first) {
            object(Rule::NeverPut, format!("delivered at {:?}, first put {first:?}", pop.end));
        } else if !job.puts.iter().any(|put| body(put) == given.body) {
            object(Rule::OtherBody, format!("delivered with {:?}", given.body));
        }
    }
    let Some(stored) = job.stored else { return };
    if first.is_none() {
        object(Rule::NeverPut, format!("stored: {stored:?}"));
    } else if let Some(other) =
        stored.bodies.iter().find(|found| !job.puts.iter().any(|put| &*body(put) == text(found)))
    {
        object(Rule::OtherBody, format!("stored with {other:?}"));
    }
}

/// Whether the store's clock was wrong at the time of this call.
fn meets(wrong_clock: &[(Time, Time)], call: &Call) -> bool {
    wrong_clock.iter().any(|(from, to)| call.end >= *from && call.start <= *to)
}

/// Nothing before it is due, by the clients' clock and by the store's.
pub(super) fn due_times(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    let due_after =
        |call: &Call, delay| call.start + if meets(wrong_clock, call) { Time::ZERO } else { delay };
    let earliest = job.puts.iter().filter_map(|put| match put.ask {
        Ask::Put { delay, .. } => Some(due_after(put, delay)),
        _ => None,
    });
    let due = earliest.min().unwrap_or_default();
    let told = job.puts.iter().filter_map(|put| match put.outcome {
        StoreResult::Done(Answer::Put { due_at, .. }) => Some(due_at),
        _ => None,
    });
    let told = told.min().unwrap_or_default();
    for given in &job.deliveries {
        let Delivered { pop, job: delivery } = given;
        if pop.end < due {
            object(Rule::Early, format!("delivered at {:?}, due at {due:?}", pop.end));
        }
        let early = given.popped_at() < delivery.due_at || delivery.due_at < told;
        if wrong_clock.is_empty() && early {
            let due = delivery.due_at;
            object(Rule::Early, format!("popped {}, due {due}, told {told}", given.popped_at()));
        }
    }
    for call in &job.ends {
        let StoreResult::Done(Answer::Released { due_at }) = call.outcome else { continue };
        let Ask::Release { delay, reservation, .. } = &call.ask else { continue };
        let Some(held) = job.given(reservation) else { continue };
        let due = due_after(call, *delay);
        // A delivery that ended before is of another rule: the release was stale.
        for given in job.after(held).filter(|given| given.pop.end > call.start) {
            if given.pop.end < due || (wrong_clock.is_empty() && given.job.due_at < due_at) {
                let end = given.pop.end;
                object(Rule::Early, format!("released until {due:?}, delivered at {end:?}"));
            }
        }
    }
}

/// No later delivery while an earlier one surely holds the job.
pub(super) fn holders(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for &held in job.deliveries.iter().filter(|held| !meets(wrong_clock, held.pop)) {
        for given in job.after(held) {
            let lapsed = (!wrong_clock.is_empty() || given.popped_at() >= held.job.reserved_until)
                && given.pop.end >= held.pop.start + held.job.ttr;
            if !lapsed && !job.may_have_let_go(held, given.pop.end, given.pop) {
                let until = held.job.reserved_until;
                let (one, other) = (held.job.attempt, given.job.attempt);
                object(
                    Rule::TwoHolders,
                    format!(
                        "attempt {one} holds until {until}, {other} since {}",
                        given.popped_at()
                    ),
                );
            }
        }
    }
}

/// Attempts grow from delivery to delivery, by no reservation twice, and within the limit.
pub(super) fn attempts(job: &Job, object: &mut impl Object) {
    let limit = job.puts.iter().filter_map(|put| match put.ask {
        Ask::Put { max_attempts, .. } => Some(max_attempts),
        _ => None,
    });
    let limit = limit.max().unwrap_or(u32::MAX);
    for (n, one) in job.deliveries.iter().enumerate() {
        let attempt = one.job.attempt;
        if attempt == 0 || attempt > limit {
            object(Rule::Attempts, format!("attempt {attempt} of {limit}"));
        }
        for other in &job.deliveries[n + 1..] {
            let same = other.job.attempt == attempt || other.job.reservation == one.job.reservation;
            // Sorted by attempt: the other one has the higher one.
            if same || other.pop.end < one.pop.start {
                object(Rule::Attempts, format!("attempts {attempt}, then {}", other.job.attempt));
            }
        }
    }
}

/// What was acknowledged as ended stays so, and only a holder ended it.
pub(super) fn ends(job: &Job, object: &mut impl Object) {
    for call in job.ends.iter().filter(|call| call.done()) {
        let held = reservation(call).and_then(|reservation| job.given(reservation));
        let released = matches!(call.ask, Ask::Release { .. });
        for given in &job.deliveries {
            let later = held.is_some_and(|held| given.job.attempt > held.job.attempt);
            let name = call.ask.name();
            if later && given.pop.end <= call.start {
                let attempt = given.job.attempt;
                object(Rule::StaleAccepted, format!("{name} after attempt {attempt} had it"));
            } else if !released && (later || given.pop.start >= call.end) {
                let (start, end) = (given.pop.start, call.end);
                object(Rule::AfterTheEnd, format!("{name} at {end:?}, popped at {start:?}"));
            }
        }
    }
    if job.ended_for_sure().count() > 1 {
        object(Rule::AfterTheEnd, "ended twice".to_owned());
    }
}

/// Refusals that the job's state cannot explain.
pub(super) fn refusals(job: &Job, wrong_clock: &[(Time, Time)], object: &mut impl Object) {
    for call in &job.ends {
        let (gone, lost) = (call.refused("job_not_found"), call.refused("reservation_lost"));
        let name = call.ask.name();
        let was_there = job.puts.iter().any(|put| put.done() && put.end <= call.start);
        let ended = job.ended_perhaps().any(|end| end.start < call.end);
        if gone && was_there && !ended {
            object(Rule::Lost, format!("{name} finds no job at {:?}", call.end));
        }
        let held = reservation(call).and_then(|reservation| job.given(reservation));
        let Some(held) = held.filter(|_| gone || lost) else { continue };
        if meets(wrong_clock, held.pop) {
            continue;
        }
        let live = call.end < held.pop.start + held.job.ttr;
        if live && !job.may_have_let_go(held, call.end, call) {
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

/// Accepted is ended or left, and not both.
pub(super) fn account(job: &Job, object: &mut impl Object) {
    let stored = job.stored.is_some();
    if job.accepted() && !stored && job.ended_perhaps().next().is_none() {
        let deliveries = job.deliveries.len();
        object(Rule::Lost, format!("accepted, delivered {deliveries} times, never ended"));
    }
    if stored && job.ended_for_sure().next().is_some() {
        object(Rule::AfterTheEnd, format!("still stored: {:?}", job.stored));
    }
}

/// In the pool once, and in one set; an attempt record only beside a pool record.
pub(super) fn sets(job: &Job, object: &mut impl Object) {
    if let Some(stored) = job.stored
        && (stored.bodies.len() != 1 || stored.sets.len() != 1 || stored.attempts > 1)
    {
        object(Rule::Sets, format!("{stored:?}"));
    }
}

impl<'a> Job<'a> {
    /// Deliveries of later attempts than that of `held`.
    fn after(&self, held: Delivered<'a>) -> impl Iterator<Item = Delivered<'a>> {
        let attempt = held.job.attempt;
        self.deliveries.iter().copied().filter(move |given| given.job.attempt > attempt)
    }
}

impl Delivered<'_> {
    /// When the store reserved it, by its clock.
    fn popped_at(&self) -> i64 {
        let ttr = i64::try_from(self.job.ttr.as_millis()).unwrap_or(i64::MAX);
        self.job.reserved_until.saturating_sub(ttr)
    }
}
