//! popped → ready, or delayed by the given delay or the job's backoff; dead, or ready in another
//! topic, if its attempts are spent or it would expire before its next attempt.

use super::{AttemptEdit, Edit, Ended, JOB_DAMAGED, JOB_EXPIRED, Known, Place, Release, Reply};
use crate::{
    Now,
    job::{AttemptOutcome, Event, PolicyFields, Refusal, Schedule, State, next},
};

/// Decides a release. An attempt that does not count is never the last one, and waits as long as
/// the attempt before it.
///
/// # Errors
/// `NotFound`, `Finished`, `ReservationLost`, `NeverPopped`; `NotReserved` without a reservation
/// for a job that no consumer holds.
pub fn release(job: &Known<'_>, now: Now, release: &Release) -> Reply<Option<Edit>> {
    let attempts = job.held(&release.held)?;
    if release.held.reservation.is_none() && job.state != State::Reserved {
        return Err(Refusal::NotReserved);
    }
    let number = attempts.number.saturating_sub(u32::from(release.is_uncounted));
    let delay = release.delay.unwrap_or_else(|| job.wait(number));
    let (due_at, due) = now.due(Schedule::In(delay))?;
    let is_spent = job.is_spent(if release.is_uncounted { 0 } else { number });
    let expires = job.expires_before(due_at);
    let after = job.after(is_spent || expires, due);
    let state = next(Some(job.state), Event::Release(after))?.unwrap_or(State::Dead);
    let dies = job.state == State::Dead || after.dies();
    let cause = (expires && !is_spent && job.state != State::Dead).then_some(JOB_EXPIRED);
    Ok(Some(Edit {
        place: match dies {
            true => job.dies(now.floor, now.floor),
            false => Place::Next { state, due_at },
        },
        attempts: AttemptEdit::Ended(Ended {
            number,
            is_snoozed: attempts.is_snoozed || release.is_uncounted && number == 0,
            outcome: match release.is_uncounted {
                true => AttemptOutcome::ReleasedUncounted,
                false => AttemptOutcome::Released,
            },
            error: if job.is_damaged { Some(JOB_DAMAGED.into()) } else { release.error.clone() },
            cause,
        }),
        policy: PolicyFields::default(),
        body: release.body.clone().filter(|_| !job.is_damaged),
    }))
}
