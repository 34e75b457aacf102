//! Jobs on their way from the store to a consumer.
//!
//! A consumer may go away at any point of that way: while the call runs, before the answer is
//! picked up, before it is written. So reserved jobs travel in a [`PendingDelivery`], which gives back
//! whatever was not [kept](Handed::keep) when it is dropped, and tries until the store has taken
//! it or the TTR is over.

use std::sync::Arc;

use tokio::{runtime::Handle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    dispatcher::Dispatcher,
    unanswered::{FIRST_PAUSE, LONGEST_PAUSE},
};
use crate::{
    job::{PoppedJob, Topic},
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
    pub(super) fn new(jobs: Vec<PoppedJob>, returner: Arc<Returner>) -> Self {
        Self { jobs, returner: Some(returner) }
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
            let held = Claim { id: job.id, reservation: Some(job.reservation) };
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
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;
    use crate::{
        job::{Millis, Reservation, UnixMillis},
        queue::Coalescer,
        store::StoreError,
    };

    fn popped() -> PoppedJob {
        PoppedJob {
            id: "a".parse().expect("an id"),
            topic: "t".parse().expect("a topic"),
            body: "null".into(),
            attempt: 1,
            max_attempts: 1,
            due_at: UnixMillis::new(0),
            created_at: UnixMillis::new(0),
            ttr: Millis::new(60_000),
            reservation: Reservation::from_bits(1),
            reserved_until: UnixMillis::new(60_000),
        }
    }

    /// A way back to a store that refuses so many calls.
    fn to_a_store_that_refuses(refusals: usize) -> (Arc<Returner>, Arc<AtomicUsize>) {
        let (calls, made) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let unpop = Coalescer::new(&calls, move |jobs: Vec<Claim>| {
            let is_refused = count.fetch_add(1, Ordering::SeqCst) < refusals;
            let outcome = move |_: &Claim| match is_refused {
                true => Err(StoreError::away("a test")),
                false => Ok(Ok("t".parse().expect("a topic"))),
            };
            async move { jobs.iter().map(outcome).collect() }
        });
        let returner = Returner {
            unpop: Dispatcher::to_one(unpop),
            tasks: calls,
            runtime: Handle::current(),
            stop: CancellationToken::new(),
        };
        (Arc::new(returner), made)
    }

    async fn ended(returner: &Returner) {
        returner.tasks.close();
        let ended = tokio::time::timeout(Duration::from_secs(10), returner.tasks.wait()).await;
        ended.expect("it is given back or given up");
    }

    #[tokio::test]
    async fn a_dropped_job_is_given_back_however_often_the_store_refuses() {
        let (returner, made) = to_a_store_that_refuses(2);
        drop(PendingDelivery::new(vec![popped()], Arc::clone(&returner)));
        ended(&returner).await;
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn once_the_queue_stops_a_dropped_job_is_given_back_once_more_and_no_more() {
        let (returner, made) = to_a_store_that_refuses(usize::MAX);
        drop(PendingDelivery::new(vec![popped()], Arc::clone(&returner)));
        let tried = async {
            while made.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), tried).await.expect("it is tried at once");
        returner.stop.cancel();
        ended(&returner).await;
        assert!(made.load(Ordering::SeqCst) >= 2);
    }

    #[tokio::test]
    async fn what_is_kept_is_not_given_back() {
        let (returner, made) = to_a_store_that_refuses(0);
        assert_eq!(PendingDelivery::new(vec![popped()], Arc::clone(&returner)).keep(), [popped()]);
        ended(&returner).await;
        assert_eq!(made.load(Ordering::SeqCst), 0);
    }
}
