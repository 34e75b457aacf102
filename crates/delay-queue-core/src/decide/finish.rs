//! popped → gone, or finished if its policy keeps it.

use super::{AttemptEdit, Edit, Ended, Finish, Known, Place, Reply};
use crate::{
    Now,
    job::{AttemptOutcome, Event, Outcome, PolicyFields, Refusal, State, next},
};

/// Decides a finish. A job whose record is damaged is not kept, whatever its policy says. `None`
/// accepts another finish by the reservation that finished the job: its client repeats it if the
/// answer was lost.
///
/// # Errors
/// `NotFound`, `Finished`, `ReservationLost`, `NeverPopped`; `ResultNotKept` for a result of a job
/// that is not kept.
pub fn finish(job: &Known<'_>, now: Now, finish: &Finish) -> Reply<Option<Edit>> {
    if job.state == State::Finished {
        job.shown_to(&finish.held.topics)?;
        let by = job.attempts.and_then(|attempts| attempts.reservation);
        let is_own = by.is_some() && by == finish.held.reservation;
        let was_finished = job.outcome.is_some_and(|outcome| outcome != Outcome::Deleted);
        return if is_own && was_finished { Ok(None) } else { Err(Refusal::Finished) };
    }
    let attempts = job.held(&finish.held)?;
    let retention = job.policy.finished_retention;
    if finish.result.is_some() && retention.is_zero() && !job.is_damaged {
        return Err(Refusal::ResultNotKept);
    }
    let kept = job.is_sound() && !retention.is_zero();
    next(Some(job.state), Event::Finish { kept })?;
    let (outcome, result) = match &finish.result {
        Some(_) if !job.has_room => (Outcome::ResultDropped, None),
        result => (Outcome::Finished, result.clone()),
    };
    let finished = Place::Finished { outcome, result, until: now.floor.after(retention) };
    Ok(Some(Edit {
        place: if kept { finished } else { Place::Gone },
        attempts: AttemptEdit::Ended(Ended {
            number: attempts.number,
            is_snoozed: attempts.is_snoozed,
            outcome: AttemptOutcome::Finished,
            error: None,
            cause: None,
        }),
        policy: PolicyFields::default(),
        body: None,
    }))
}
