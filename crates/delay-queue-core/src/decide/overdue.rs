//! A deadline has passed. End of a TTR: reserved → ready, delayed, dead, or ready in another topic.
//! Expiry: delayed, ready → dead, or ready in another topic.

use super::{AttemptEdit, Edit, JOB_DAMAGED, JOB_EXPIRED, Known, Place, Reply, TTR_ENDED};
use crate::{
    Now,
    job::{After, Due, Event, PolicyFields, Refusal, State, UnixMillis, next},
};

/// Decides what follows from a deadline that has passed by the believed time. All times count from
/// the deadline, except the due time of a job that moves, so the result does not depend on when a
/// timer runs.
///
/// # Errors
/// `WrongState` if no deadline of the job has passed.
pub fn overdue(job: &Known<'_>, now: Now) -> Reply<Option<Edit>> {
    match (job.state, job.expires_at) {
        (State::Reserved, _) if job.held_until <= now.believed => end_ttr(job, now.believed),
        (State::Delayed | State::Ready, Some(at)) if at <= now.believed => {
            next(Some(job.state), Event::Expire { moves: job.moves_to().is_some() })?;
            let attempts = AttemptEdit::Lapsed { error: JOB_EXPIRED, ttr_ended_at: None };
            Ok(Some(edit(job.dies(at, now.believed), attempts)))
        }
        (state, _) => Err(Refusal::WrongState(state)),
    }
}

/// Returns the edit that makes a job dead whose record is damaged, so that nothing tells when it
/// expires.
pub fn quarantined(now: Now) -> Edit {
    let attempts = AttemptEdit::Lapsed { error: JOB_DAMAGED, ttr_ended_at: None };
    edit(Place::Dead { died_at: now.believed }, attempts)
}

fn end_ttr(job: &Known<'_>, now: UnixMillis) -> Reply<Option<Edit>> {
    let ended_at = job.held_until;
    let Some(attempts) = job.attempts else {
        // Nothing tells the number of its attempts: they start again.
        next(Some(job.state), Event::Promote(After::Now))?;
        let place = Place::Next { state: State::Ready, due_at: ended_at };
        return Ok(Some(edit(place, AttemptEdit::Forgotten)));
    };
    let due_at = ended_at.after(job.wait(attempts.number));
    let expires = job.expires_before(due_at) && !job.is_damaged;
    let is_last = job.is_spent(attempts.number) || expires;
    let after = job.after(is_last, if due_at <= now { Due::Now } else { Due::Later });
    let state = next(Some(job.state), Event::Promote(after))?.unwrap_or(State::Dead);
    let error = match expires {
        _ if job.is_damaged => JOB_DAMAGED,
        true => JOB_EXPIRED,
        false => TTR_ENDED,
    };
    let place = match after.dies() {
        true => job.dies(ended_at, now),
        false => Place::Next { state, due_at },
    };
    Ok(Some(edit(place, AttemptEdit::Lapsed { error, ttr_ended_at: Some(ended_at) })))
}

fn edit(place: Place, attempts: AttemptEdit) -> Edit {
    Edit { place, attempts, policy: PolicyFields::default(), body: None }
}
