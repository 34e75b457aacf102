//! Jobs on their way from the store to a consumer.
//!
//! A consumer may go away at any point of that way: while the call runs, before the answer is
//! picked up, before it is written. So reserved jobs travel in a [`Handed`], which gives back
//! whatever was not [kept](Handed::keep) when it is dropped.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::coalescer::Coalescer;
use crate::{
    job::{Buckets, JobId, PoppedJob, Reservation, Topic},
    store::{Held, Reply},
};

/// Reserved jobs, not yet the consumer's.
#[derive(Default)]
pub struct Handed {
    jobs: Vec<PoppedJob>,
    way_back: Option<Arc<WayBack>>,
}

/// How jobs are given back.
pub(super) struct WayBack {
    pub(super) buckets: Buckets,
    /// By bucket.
    pub(super) give_back: Vec<Coalescer<Held, Reply<Topic>>>,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

impl Handed {
    pub(super) fn new(jobs: Vec<PoppedJob>, way_back: Arc<WayBack>) -> Self {
        Self { jobs, way_back: Some(way_back) }
    }

    /// The jobs, to be shown to the consumer.
    pub fn jobs(&self) -> &[PoppedJob] {
        &self.jobs
    }

    /// The jobs are the consumer's now.
    pub fn keep(mut self) -> Vec<PoppedJob> {
        std::mem::take(&mut self.jobs)
    }

    /// Takes the jobs of `other` too.
    pub(super) fn join(&mut self, mut other: Self) {
        self.jobs.append(&mut other.jobs);
        if self.way_back.is_none() {
            self.way_back = other.way_back.take();
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(way_back) = self.way_back.take().filter(|_| !self.jobs.is_empty()) {
            for job in self.jobs.drain(..) {
                way_back.give_back(job.id, job.reservation);
            }
        }
    }
}

impl WayBack {
    fn give_back(&self, id: JobId, reservation: Reservation) {
        let coalescer = self.give_back[self.buckets.of(&id).index()].clone();
        let task = async move {
            let held = Held { id: id.clone(), reservation: Some(reservation) };
            if let Err(error) = coalescer.submit(vec![held]).await {
                tracing::warn!(%id, %error, "failed to give a job back; it returns after its TTR");
            }
        };
        self.tasks.spawn_on(task, &self.runtime);
    }
}
