//! delayed, dead → ready now. The attempts of a dead job start from zero, and it expires counted
//! from now.

use super::{AttemptEdit, Edit, Known, Place, Reply, Target};
use crate::{
    Now,
    job::{Event, PolicyFields, State, next},
};

/// Decides a kick; `None` leaves a ready job as it is.
///
/// # Errors
/// `NotFound`, `Finished`, `Reserved`.
pub fn kick(job: &Known<'_>, now: Now, target: &Target) -> Reply<Option<Edit>> {
    job.shown_to(&target.topics)?;
    next(Some(job.state), Event::Kick)?;
    let is_dead = job.state == State::Dead;
    let expires_after = job.policy.expires_after.filter(|_| is_dead);
    let expires_at = expires_after.map(|span| now.floor.after(span));
    Ok((job.state != State::Ready).then(|| Edit {
        place: Place::Next { state: State::Ready, due_at: now.floor },
        attempts: if is_dead { AttemptEdit::Forgotten } else { AttemptEdit::Kept },
        policy: PolicyFields { expires_at, ..PolicyFields::default() },
        body: None,
    }))
}
