//! delayed, ready → delayed, ready: a new due time, or other contents.

use super::{AttemptEdit, Edit, Known, Place, Reply, Target};
use crate::{
    Now,
    job::{Change, Due, Event, Refusal, State, next},
};

/// Decides a change. Without a new time, the job keeps its place, even if the clock has moved.
///
/// # Errors
/// `NotFound`, `Damaged`, `Reserved`, `Dead`, `Finished`; `DueTooFar` for a time more than ten
/// years ahead.
pub fn change(job: &Known<'_>, now: Now, target: &Target, change: &Change) -> Reply<Option<Edit>> {
    job.shown_to(&target.topics)?;
    let has_lost_its_time = job.is_astray && job.attempts.is_none();
    if job.is_damaged || has_lost_its_time && change.schedule.is_none() {
        return Err(Refusal::Damaged);
    }
    // Refused first, whatever the new time is.
    next(Some(job.state), Event::Reschedule(Due::Now))?;
    let stays = if job.state == State::Ready { Due::Now } else { Due::Later };
    let (due_at, due) = match change.schedule {
        Some(schedule) => now.due(schedule)?,
        None => (job.due_at, stays),
    };
    let state = next(Some(job.state), Event::Reschedule(due))?.unwrap_or(State::Ready);
    let mut policy = change.policy.clone();
    if change.schedule.is_some() || policy.expires_after.is_some() {
        let span = policy.expires_after.unwrap_or(job.policy.expires_after);
        policy.expires_at = span.map(|span| due_at.after(span));
    }
    Ok(Some(Edit {
        place: Place::Next { state, due_at },
        attempts: AttemptEdit::Unheld,
        policy,
        body: change.body.clone(),
    }))
}
