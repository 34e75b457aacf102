//! Jobs on their way from the store to a consumer.
//!
//! A consumer may go away at any point of that way: while the call runs, before the answer is
//! picked up, before it is written. So reserved jobs travel in a [`Handed`], which gives back
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
    pub(super) give_back: Dispatcher<Held, Reply<Topic>>,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    /// Each is tried once more, and then no more.
    pub(super) stop: CancellationToken,
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
                way_back.give_back(job);
            }
        }
    }
}

impl WayBack {
    fn give_back(self: &Arc<Self>, job: PoppedJob) {
        let (way_back, stop, over) =
            (Arc::clone(self), self.stop.clone(), Instant::now() + job.ttr.into());
        let task = async move {
            let held = Held { id: job.id, reservation: Some(job.reservation) };
            let mut pause = FIRST_PAUSE;
            loop {
                let is_last = stop.is_cancelled() || Instant::now() >= over;
                let id = &held.id;
                match way_back.give_back.submit(vec![held.clone()]).await.pop() {
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
    fn to_a_store_that_refuses(refusals: usize) -> (Arc<WayBack>, Arc<AtomicUsize>) {
        let (calls, made) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let give_back = Coalescer::new(&calls, move |jobs: Vec<Held>| {
            let is_refused = count.fetch_add(1, Ordering::SeqCst) < refusals;
            let outcome = move |_: &Held| match is_refused {
                true => Err(StoreError::away("a test")),
                false => Ok(Ok("t".parse().expect("a topic"))),
            };
            async move { jobs.iter().map(outcome).collect() }
        });
        let way_back = WayBack {
            give_back: Dispatcher::to_one(give_back),
            tasks: calls,
            runtime: Handle::current(),
            stop: CancellationToken::new(),
        };
        (Arc::new(way_back), made)
    }

    async fn ended(way_back: &WayBack) {
        way_back.tasks.close();
        let ended = tokio::time::timeout(Duration::from_secs(10), way_back.tasks.wait()).await;
        ended.expect("it is given back or given up");
    }

    #[tokio::test]
    async fn a_dropped_job_is_given_back_however_often_the_store_refuses() {
        let (way_back, made) = to_a_store_that_refuses(2);
        drop(Handed::new(vec![popped()], Arc::clone(&way_back)));
        ended(&way_back).await;
        assert_eq!(made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn once_the_queue_stops_a_dropped_job_is_given_back_once_more_and_no_more() {
        let (way_back, made) = to_a_store_that_refuses(usize::MAX);
        drop(Handed::new(vec![popped()], Arc::clone(&way_back)));
        let tried = async {
            while made.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), tried).await.expect("it is tried at once");
        way_back.stop.cancel();
        ended(&way_back).await;
        assert!(made.load(Ordering::SeqCst) >= 2);
    }

    #[tokio::test]
    async fn what_is_kept_is_not_given_back() {
        let (way_back, made) = to_a_store_that_refuses(0);
        assert_eq!(Handed::new(vec![popped()], Arc::clone(&way_back)).keep(), [popped()]);
        ended(&way_back).await;
        assert_eq!(made.load(Ordering::SeqCst), 0);
    }
}
