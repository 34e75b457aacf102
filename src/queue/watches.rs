//! Requests that wait until a job is dead or gone.
//!
//! A transition of this server wakes the requests that wait for its job. Transitions by other
//! servers and by timers are found by reading the states of these jobs once a second.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::batching::dispatcher::divide;
use crate::{
    job::{JobId, State},
    store::Store,
};

/// Time between two readings of the watched jobs.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of jobs that one call reads, so that it delays other calls only briefly.
const MAX_JOBS: usize = 250;

/// The watched jobs.
#[derive(Default)]
pub struct Watches {
    jobs: Mutex<HashMap<JobId, watch::Sender<()>>>,
    /// Whether `jobs` may contain any, so that a transition takes no lock while no job is watched.
    may_have_jobs: AtomicBool,
}

/// Watch of one job, until dropped.
pub struct Watch(watch::Receiver<()>);

impl Watch {
    /// Waits until the job may have changed since the last call, or since the watch began.
    pub async fn changed(&mut self) {
        // The sender is kept as long as there are receivers.
        let _ = self.0.changed().await;
    }
}

impl Watches {
    pub fn watch(&self, id: JobId) -> Watch {
        let mut jobs = self.lock();
        self.may_have_jobs.store(true, Ordering::SeqCst);
        Watch(jobs.entry(id).or_default().subscribe())
    }

    pub fn is_empty(&self) -> bool {
        !self.may_have_jobs.load(Ordering::SeqCst)
    }

    /// Wakes the requests that wait for these jobs.
    pub fn changed<'a>(&self, ids: impl Iterator<Item = &'a JobId>) {
        let jobs = self.lock();
        ids.filter_map(|id| jobs.get(id)).for_each(|job| job.send_replace(()));
    }

    /// Wakes all requests that wait for jobs.
    pub fn all_changed(&self) {
        self.lock().values().for_each(|job| job.send_replace(()));
    }

    /// Returns the jobs that are still watched, and forgets all others.
    fn watched(&self) -> Vec<JobId> {
        let mut jobs = self.lock();
        jobs.retain(|_, job| job.receiver_count() > 0);
        self.may_have_jobs.store(!jobs.is_empty(), Ordering::SeqCst);
        jobs.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, watch::Sender<()>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Task that reads the states of the watched jobs.
pub struct Watcher {
    pub store: Arc<dyn Store>,
    pub watches: Arc<Watches>,
}

impl Watcher {
    /// Runs until `stop`. After an error, the next reading finds the missed changes.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = sleep(INTERVAL) => {}
                () = stop.cancelled() => return,
            }
            if !self.watches.is_empty() {
                for ids in self.watches.watched().chunks(MAX_JOBS) {
                    self.read(ids).await;
                }
            }
        }
    }

    async fn read(&self, ids: &[JobId]) {
        let (parts, _) = divide(ids.to_vec(), |id| self.store.buckets().of(id));
        let states = self.store.states(parts.clone()).await;
        for ((_, ids), states) in parts.iter().zip(states) {
            let states = match states {
                Ok(states) => states,
                Err(error) => {
                    tracing::debug!(%error, "failed to read the states of jobs that clients wait for");
                    continue;
                }
            };
            let ended = ids.iter().zip(states).filter(|(_, state)| has_ended(*state));
            self.watches.changed(ended.map(|(id, _)| id));
        }
    }
}

fn has_ended(state: Option<State>) -> bool {
    state.is_none_or(|state| matches!(state, State::Dead | State::Finished))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let (watches, id) = (Watches::default(), "a".parse::<JobId>().expect("an id"));
        assert!(watches.is_empty());
        let (mut one, mut other) = (watches.watch(id.clone()), watches.watch(id.clone()));
        watches.changed([&id].into_iter());
        one.changed().await;
        other.changed().await;
        watches.all_changed();
        one.changed().await;
        other.changed().await;
        drop(one);
        assert_eq!(watches.watched(), std::slice::from_ref(&id));
        drop(other);
        assert!(watches.watched().is_empty() && watches.is_empty());
        watches.changed([&id].into_iter());
    }
}
