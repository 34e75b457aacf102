//! popped → dead, with an error text, or ready in another topic.

use super::{AttemptEdit, Bury, Edit, Ended, Known, Reply};
use crate::{
    Now,
    job::{AttemptOutcome, Event, PolicyFields, next},
};

/// Decides a bury.
///
/// # Errors
/// `NotFound`, `Finished`, `ReservationLost`, `NeverPopped`.
pub fn bury(job: &Known<'_>, now: Now, bury: &Bury) -> Reply<Option<Edit>> {
    let attempts = job.held(&bury.held)?;
    next(Some(job.state), Event::Bury { moves: job.moves_to().is_some() })?;
    Ok(Some(Edit {
        place: job.dies(now.floor, now.floor),
        attempts: AttemptEdit::Ended(Ended {
            number: attempts.number,
            is_snoozed: attempts.is_snoozed,
            outcome: AttemptOutcome::Buried,
            error: bury.error.clone(),
            cause: None,
        }),
        policy: PolicyFields::default(),
        body: None,
    }))
}

/// Decides the bury of a job whose record a pop found to be damaged.
///
/// # Errors
/// The same.
pub fn bury_damaged(job: &Known<'_>, now: Now, request: &Bury) -> Reply<Option<Edit>> {
    bury(&Known { is_damaged: true, ..*job }, now, request)
}
