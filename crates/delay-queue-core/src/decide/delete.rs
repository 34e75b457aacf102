//! any → gone, or finished if its id is to be remembered.

use super::{AttemptEdit, Delete, Edit, Known, Place, Reply};
use crate::{
    Now,
    job::{Event, Outcome, PolicyFields, Refusal, State, next},
};

/// Decides a delete. A job that cannot be read can only be deleted, and not remembered.
///
/// # Errors
/// `NotFound`; `WrongState` for a state that the caller excluded; `Damaged` if the id of a job that
/// cannot be read is to be remembered.
pub fn delete(job: &Known<'_>, now: Now, delete: &Delete) -> Reply<Option<Edit>> {
    job.shown_to(&delete.job.topics)?;
    if delete.states.is_some_and(|states| !states.has(job.state)) {
        return Err(Refusal::WrongState(job.state));
    }
    let retention = delete.remembered();
    let is_sound = job.is_sound() && (job.state == State::Finished) == job.outcome.is_some();
    if retention.is_some() && !is_sound {
        return Err(Refusal::Damaged);
    }
    next(Some(job.state), Event::Delete { kept: retention.is_some() })?;
    Ok(Some(Edit {
        place: retention.map_or(Place::Gone, |retention| Place::Finished {
            outcome: Outcome::Deleted,
            result: None,
            until: now.floor.after(retention),
        }),
        attempts: AttemptEdit::Kept,
        policy: PolicyFields { finished_retention: retention, ..PolicyFields::default() },
        body: None,
    }))
}
