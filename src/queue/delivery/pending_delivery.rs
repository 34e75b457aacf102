//! Jobs on their way from the store to a consumer.
//!
//! A consumer may disconnect at any point: while the call runs, before the answer is
//! picked up, before it is written. So reserved jobs travel in a [`PendingDelivery`], which gives back
//! whatever was not [kept](PendingDelivery::keep) when it is dropped, and tries until the store has taken
//! it or the TTR is over.

use std::sync::Arc;

use tokio::{runtime::Handle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::queue::{
    batching::dispatcher::Dispatcher,
    delivery::unanswered::{FIRST_PAUSE, LONGEST_PAUSE},
};
use crate::{
    job::{PoppedJob, Topic, Topics},
    store::{Claim, Reply},
};

/// Reserved jobs, not yet the consumer's.
#[derive(Default)]
pub struct PendingDelivery {
    jobs: Vec<PoppedJob>,
    returner: Option<Arc<Returner>>,
}

/// How jobs are given back.
pub struct Returner {
    pub unpop: Dispatcher<Claim, Reply<Topic>>,
    pub tasks: TaskTracker,
    pub runtime: Handle,
    /// Each is tried once more, and then no more.
    pub stop: CancellationToken,
}

impl PendingDelivery {
    pub(in crate::queue) fn new(jobs: Vec<PoppedJob>, returner: Arc<Returner>) -> Self {
        Self { jobs, returner: Some(returner) }
    }

    /// The jobs, to be shown to the consumer.
    pub fn jobs(&self) -> &[PoppedJob] {
        &self.jobs
    }

    /// The bytes of their bodies.
    pub fn bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.body.len()).sum()
    }

    /// Gives the last half of the jobs back.
    pub fn halve(&mut self) {
        let rest = self.jobs.split_off(self.jobs.len().div_ceil(2));
        drop(Self { jobs: rest, returner: self.returner.clone() });
    }

    /// The jobs are the consumer's now.
    pub fn keep(mut self) -> Vec<PoppedJob> {
        std::mem::take(&mut self.jobs)
    }

    /// Takes the jobs of `other` too.
    pub fn join(&mut self, mut other: Self) {
        self.jobs.append(&mut other.jobs);
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
            let held =
                Claim { id: job.id, reservation: Some(job.reservation), topics: Topics::ALL };
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
