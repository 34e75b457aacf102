//! Transitions of jobs by their ids, except put and pop. Each job has its own result, in the order
//! of the request.

use std::time::Duration;

use super::{batching::dispatcher::Dispatcher, error::QueueError, service::Queue};
use tokio::time::{Instant, sleep_until};

use crate::{
    job::{Change, Job, JobId, Refusal, State, Topic, UnixMillis},
    store::{
        Bury, Clock, Delete, Finish, JobRequest, Readied, Release, Reply, StoreResult, Target,
        Touch, Transitioned,
    },
};

/// Time between two checks of a caller that waits.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Queue {
    /// Finishes jobs and returns their topics.
    pub async fn finish(&self, jobs: Vec<Finish>) -> Vec<Result<Topic, QueueError>> {
        self.submit_each(jobs, &self.transitions.finish).await
    }

    /// Releases jobs.
    pub async fn release(&self, jobs: Vec<Release>) -> Vec<Result<Transitioned, QueueError>> {
        let errors = errors(&jobs, |job| (&job.held.id, job.error.as_deref()));
        let done = self.submit_each(jobs, &self.transitions.release).await;
        self.note_errors(errors, &done);
        done
    }

    /// Extends reservations and returns when they end.
    pub async fn touch(&self, jobs: Vec<Touch>) -> Vec<Result<UnixMillis, QueueError>> {
        self.submit_each(jobs, &self.transitions.touch).await
    }

    /// Buries jobs.
    pub async fn bury(&self, jobs: Vec<Bury>) -> Vec<Result<Transitioned, QueueError>> {
        let errors = errors(&jobs, |job| (&job.held.id, job.error.as_deref()));
        let done = self.submit_each(jobs, &self.transitions.bury).await;
        self.note_errors(errors, &done);
        done
    }

    fn note_errors(
        &self,
        errors: Vec<(usize, JobId, String)>,
        done: &[Result<Transitioned, QueueError>],
    ) {
        for (index, id, error) in errors {
            if let Some(Ok(moved)) = done.get(index) {
                let at = Clock::Own.now().floor;
                self.last_errors.note(at, &moved.topic, id, moved.state, &error);
            }
        }
    }

    /// Kicks jobs and returns their topics and priorities.
    pub async fn kick(&self, jobs: Vec<Target>) -> Vec<Result<Readied, QueueError>> {
        self.submit_each(jobs, &self.transitions.kick).await
    }

    /// Deletes jobs and returns their former states.
    pub async fn delete(&self, jobs: Vec<Delete>) -> Vec<Result<State, QueueError>> {
        self.submit_each(jobs, &self.transitions.delete).await
    }

    /// Reschedules jobs and returns them with their changes.
    pub async fn reschedule(&self, jobs: Vec<(Target, Change)>) -> Vec<Result<Job, QueueError>> {
        self.submit_each(jobs, &self.transitions.reschedule).await
    }

    /// Returns a job that its caller may access.
    ///
    /// # Errors
    /// `NotFound`, or the error of the store.
    pub async fn get(&self, target: Target) -> Result<Job, QueueError> {
        let bucket = self.store.buckets().of(&target.id);
        let job = self.store.get(bucket, target).await?;
        job.ok_or(QueueError::Refused(Refusal::NotFound))
    }

    /// Submits the jobs, except jobs that lack a required reservation.
    pub(super) async fn submit_each<I, O>(
        &self,
        jobs: Vec<I>,
        dispatcher: &Dispatcher<I, Reply<O>>,
    ) -> Vec<Result<O, QueueError>>
    where
        I: JobRequest + Send + 'static,
        O: Send + 'static,
    {
        let watched: Vec<JobId> = match self.watches.is_empty() {
            true => Vec::new(),
            false => jobs.iter().map(|job| job.id().clone()).collect(),
        };
        let results: Vec<Result<O, QueueError>> = match self.settings.require_reservation {
            false => dispatcher.submit(jobs).await.into_iter().map(reply).collect(),
            true => with_reservations(jobs, dispatcher).await,
        };
        if !watched.is_empty() {
            let changed = watched.iter().zip(&results).filter(|(_, result)| result.is_ok());
            self.watches.changed(changed.map(|(id, _)| id));
        } else if !self.watches.is_empty() {
            // While the answer was missing, a watch of one of these jobs may have begun.
            self.watches.all_changed();
        }
        results
    }

    /// Waits until a job that its caller may access is dead, and returns it. At `end`, or if the
    /// server stops before, returns the job in its current state. Calls `check` at least once a
    /// second.
    ///
    /// # Errors
    /// The error of `check`, `NotFound` if the job is gone, or the error of the store.
    pub async fn wait_for_end<E: From<QueueError>>(
        &self,
        target: Target,
        end: Instant,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Job, E> {
        let mut watch = self.watches.watch(target.id.clone());
        loop {
            let is_over = Instant::now() >= end || self.no_waiting.is_cancelled();
            let job = self.get(target.clone()).await?;
            if is_over || matches!(job.state, State::Dead | State::Finished) {
                return Ok(job);
            }
            drop(job); // a long body takes no memory meanwhile
            loop {
                let soon = end.min(Instant::now() + CHECK_INTERVAL);
                let is_soon = tokio::select! {
                    () = watch.changed() => false,
                    () = self.no_waiting.cancelled() => false,
                    () = sleep_until(soon) => true,
                };
                check()?;
                if !is_soon || Instant::now() >= end {
                    break;
                }
            }
        }
    }
}

/// Submits the jobs that have a reservation, and refuses the others.
async fn with_reservations<I, O>(
    jobs: Vec<I>,
    dispatcher: &Dispatcher<I, Reply<O>>,
) -> Vec<Result<O, QueueError>>
where
    I: JobRequest + Send + 'static,
    O: Send + 'static,
{
    let refused: Vec<bool> = jobs.iter().map(JobRequest::lacks_reservation).collect();
    let held = jobs.into_iter().filter(|job| !job.lacks_reservation()).collect();
    let mut outcomes = dispatcher.submit(held).await.into_iter();
    let mut next = |is_refused| match is_refused {
        true => Err(QueueError::ReservationRequired),
        false => reply(outcomes.next().expect("the dispatcher has an outcome for each job")),
    };
    refused.into_iter().map(&mut next).collect()
}

fn reply<O>(outcome: StoreResult<Reply<O>>) -> Result<O, QueueError> {
    outcome.map_err(QueueError::Store)?.map_err(QueueError::Refused)
}

/// Returns the error texts of these jobs: index, id and text.
fn errors<J>(jobs: &[J], of: fn(&J) -> (&JobId, Option<&str>)) -> Vec<(usize, JobId, String)> {
    let each = jobs.iter().map(of).enumerate();
    each.filter_map(|(index, (id, text))| Some((index, id.clone(), text?.to_owned()))).collect()
}
