//! absent → delayed or ready. A job that has the id already is kept or replaced, or the put is
//! refused.

use super::{AttemptEdit, Edit, Known, Place, Reply};
use crate::{
    Now,
    job::{
        Event, Living, NewJob, OnConflict, PolicyFields, Refusal, State, Topic, UnixMillis, next,
    },
};

/// Result of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Effect of the put.
    pub how: PutOutcome,
    /// State of the living job.
    pub state: State,
    /// Due time of the living job.
    pub due_at: UnixMillis,
    /// Topic of a kept job that has died in the topic of the put and moved.
    pub moved_to: Option<Topic>,
}

/// Effect of a put on the job of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The id was free: the job is new.
    Created,
    /// A living job had the id and is unchanged.
    Kept,
    /// A living job had the id and was replaced.
    Replaced,
}

/// Decides a put; without an edit, the living job stays as it is.
///
/// # Errors
/// `DueTooFar` for a time more than ten years ahead; `Exists` if the living job is to be neither
/// kept nor replaced, or has another topic; `Reserved` for a replacement of a job that a consumer
/// holds.
pub fn put(living: Option<&Known<'_>>, now: Now, job: &NewJob) -> Reply<Option<Edit>> {
    let (due_at, due) = now.due(job.schedule)?;
    let event = match living {
        None => Event::Put(due),
        Some(living) => {
            check_conflict(living, job)?;
            if job.on_conflict == OnConflict::Keep && !living.is_astray {
                return Ok(None);
            }
            Event::Replace(due)
        }
    };
    let state = next(living.map(|living| living.state), event)?;
    Ok(Some(Edit::arrival(state.expect("a put ends no job"), due_at)))
}

/// Refuses a put whose id exists, unless it keeps or replaces a job of the same topic, or keeps a
/// job that has died there and moved. A job in no set has no topic; if it was never popped, half a
/// put or half a delete has left it, and its id is free.
fn check_conflict(living: &Known<'_>, job: &NewJob) -> Reply<()> {
    let is_allowed = match job.on_conflict {
        OnConflict::Reject => living.is_astray && living.attempts.is_none(),
        _ if living.is_astray => true,
        OnConflict::Replace => *living.topic == job.topic,
        OnConflict::Keep => {
            let died_in = living.policy.dead_from.as_ref();
            [Some(living.topic), died_in].contains(&Some(&job.topic))
        }
    };
    let found = || Living { state: living.state, topic: living.topic.clone() };
    let found = (!living.is_astray).then(found);
    if is_allowed { Ok(()) } else { Err(Refusal::Exists(found)) }
}

impl Placed {
    /// Returns the answer to a put that has put a new job, if need be in place of the living one.
    pub fn new(living: Option<&Known<'_>>, state: State, due_at: UnixMillis) -> Self {
        let is_over = |living: &Known<'_>| living.is_astray || living.state == State::Finished;
        let is_free = living.is_none_or(is_over);
        let how = if is_free { PutOutcome::Created } else { PutOutcome::Replaced };
        Self { how, state, due_at, moved_to: None }
    }

    /// Returns the answer to a put that keeps the living job.
    pub fn kept(living: &Known<'_>, job: &NewJob) -> Self {
        Self {
            how: PutOutcome::Kept,
            state: living.state,
            due_at: living.due_at,
            moved_to: (*living.topic != job.topic).then(|| living.topic.clone()),
        }
    }
}

impl Edit {
    /// Returns the edit that puts a job where its id is free, or in place of the job that has it.
    pub(super) fn arrival(state: State, at: UnixMillis) -> Self {
        Self {
            place: Place::New { state, at },
            attempts: AttemptEdit::Forgotten,
            policy: PolicyFields::default(),
            body: None,
        }
    }
}
