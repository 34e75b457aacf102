//! Reserved jobs on their way from the store to a consumer.
//!
//! A consumer may disconnect at any time: while the call runs, before the answer is taken, or
//! before it is written. Therefore reserved jobs travel in a [`PendingDelivery`]. When it is
//! dropped, it gives back all jobs that were not [kept](PendingDelivery::keep). It retries until
//! the store has accepted them or their TTR has ended.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::queue::{
    batching::dispatcher::Dispatcher,
    delivery::unanswered::{FIRST_PAUSE, LONGEST_PAUSE},
};
use crate::{
    job::PoppedJob,
    store::{JobRef, Readied, Reply},
};

/// Reserved jobs whose consumer has not yet received them.
#[derive(Default)]
pub struct PendingDelivery {
    jobs: Vec<PoppedJob>,
    returner: Option<Arc<Returner>>,
    /// Time just before the first of these jobs was reserved.
    asked: Option<Instant>,
    /// Whether the pop ended expired or damaged jobs instead of reserving them.
    pub(in crate::queue) has_ended_jobs: bool,
}

pub struct Returner {
    pub unpop: Dispatcher<JobRef, Reply<Readied>>,
    pub tasks: TaskTracker,
    pub runtime: Handle,
    /// When cancelled, each job is given back in one more attempt; if that fails, the job returns
    /// after its TTR.
    pub stop: CancellationToken,
}

impl PendingDelivery {
    /// Creates a delivery of jobs that were reserved after `asked`.
    pub(in crate::queue) fn new(
        jobs: Vec<PoppedJob>,
        returner: Arc<Returner>,
        asked: Instant,
    ) -> Self {
        Self { jobs, returner: Some(returner), asked: Some(asked), has_ended_jobs: false }
    }

    /// Returns at most how long the jobs have been reserved.
    pub fn age(&self) -> Duration {
        self.asked.map_or(Duration::ZERO, |asked| asked.elapsed())
    }

    /// Returns the jobs, for the answer to the consumer.
    pub fn jobs(&self) -> &[PoppedJob] {
        &self.jobs
    }

    /// Returns the total size of the bodies in bytes.
    pub fn bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.body.len()).sum()
    }

    /// Gives back the second half of the jobs.
    pub fn halve(&mut self) {
        let rest = self.jobs.split_off(self.jobs.len().div_ceil(2));
        let returner = self.returner.clone();
        drop(Self { jobs: rest, returner, asked: self.asked, has_ended_jobs: false });
    }

    /// Gives all jobs back now; returns whether the store has taken them. Jobs for which this fails
    /// are given back like those of a dropped delivery.
    pub async fn give_back(mut self) -> bool {
        let Some(returner) = self.returner.clone().filter(|_| !self.jobs.is_empty()) else {
            return true;
        };
        let outcomes =
            returner.unpop.submit(self.jobs.iter().map(JobRef::from_popped).collect()).await;
        let mut outcomes = outcomes.into_iter();
        self.jobs.retain(|_| !matches!(outcomes.next(), Some(Ok(_))));
        self.jobs.is_empty()
    }

    /// Hands the jobs over to the consumer. After this, they are not given back.
    pub fn keep(mut self) -> Vec<PoppedJob> {
        std::mem::take(&mut self.jobs)
    }

    /// Adds the jobs of `other`.
    pub fn join(&mut self, mut other: Self) {
        self.jobs.append(&mut other.jobs);
        self.asked = self.asked.into_iter().chain(other.asked).min();
        self.has_ended_jobs |= other.has_ended_jobs;
        if self.returner.is_none() {
            self.returner = other.returner.take();
        }
    }
}

impl Drop for PendingDelivery {
    fn drop(&mut self) {
        if let Some(returner) = self.returner.take().filter(|_| !self.jobs.is_empty()) {
            for job in self.jobs.drain(..) {
                returner.unpop(job);
            }
        }
    }
}

impl Returner {
    fn unpop(self: &Arc<Self>, job: PoppedJob) {
        let (returner, stop, over) =
            (Arc::clone(self), self.stop.clone(), Instant::now() + job.ttr.into());
        let task = async move {
            let held = JobRef::from_popped(&job);
            let mut pause = FIRST_PAUSE;
            loop {
                let is_last = stop.is_cancelled() || Instant::now() >= over;
                let id = &held.id;
                match returner.unpop.submit(vec![held.clone()]).await.pop() {
                    None | Some(Ok(_)) => return,
                    Some(Err(error)) if is_last => {
                        tracing::warn!(%id, %error, "failed to give a job back; it returns after its TTR");
                        return;
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%id, %error, "failed to give a job back yet")
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    () = stop.cancelled() => {}
                }
            }
        };
        self.tasks.spawn_on(task, &self.runtime);
    }
}

#[cfg(test)]
mod tests;
