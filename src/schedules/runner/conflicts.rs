//! Instants whose job cannot be put, since another job has its id.
//!
//! Ids of instants can be guessed, so a client may have put a job with this id. Such a job must not
//! suppress the instant: the job of the schedule gets a longer id, which only the servers of the
//! store can compute.

use crate::{
    job::{Refusal, Topics, UnixMillis},
    queue::QueueError,
    schedules::{LastJob, Record, ScheduleError, record::job_id, service::Shared},
    store::{Fired, Firing, StoredSchedule, Target},
};

/// Outcome for an instant whose id is in use.
pub enum Resolved {
    /// The job was put with the longer id, and the schedule has advanced.
    Placed,
    /// The job of the schedule is in the store, and the schedule should advance to this state.
    HasJob(Box<Record>),
    /// The schedule has another text now, or the other job has gone.
    Again,
}

/// Puts the job of an instant with another id, unless the job that has its id is that job.
/// `advanced` is the state of the schedule after the put.
///
/// # Errors
/// Any [`ScheduleError`]; then the schedule has not advanced.
pub async fn resolve(
    shared: &Shared,
    schedule: &StoredSchedule,
    instant: UnixMillis,
    advanced: &Record,
) -> Result<Resolved, ScheduleError> {
    let name = &schedule.name;
    let id = job_id(name, instant, None)?;
    let target = Target { id: id.clone(), topics: Topics::ALL };
    match shared.queue.get(target).await {
        Ok(job) if advanced.has_put(instant, &job) => {
            return Ok(Resolved::HasJob(Box::new(advanced.clone())));
        }
        Err(QueueError::Refused(Refusal::NotFound)) => return Ok(Resolved::Again),
        Ok(_) | Err(QueueError::Refused(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mark = shared.queue.reservation_key().mark(&id);
    let longer = job_id(name, instant, Some(&mark))?;
    let last = advanced.last.clone().map(|last| LastJob { mark: Some(mark), ..last });
    let marked = Record { last, ..advanced.clone() };
    let new = marked.written(name)?;
    let job = shared.queue.scheduled_job(marked.put(name, instant, longer.clone()));
    let firing = Firing { schedule: schedule.clone(), new, job };
    match shared.queue.fire(vec![firing]).await.pop().transpose()? {
        Some(Fired::Placed(_)) => {
            tracing::warn!(
                %name,
                %id,
                %longer,
                "another job has the id of an instant; the schedule's job has a longer one"
            );
            Ok(Resolved::Placed)
        }
        // Only a server of this store can have put it.
        Some(Fired::Taken) => Ok(Resolved::HasJob(Box::new(marked))),
        Some(Fired::Stale(_)) | None => Ok(Resolved::Again),
    }
}
