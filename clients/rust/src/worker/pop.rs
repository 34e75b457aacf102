//! The loop that pops jobs for free slots.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use reqwest::Method;
use serde::Deserialize;
use tokio::{select, task::JoinSet, time::Instant};
use tracing::error;

use super::{Shared, attempt};
use crate::{Error, job::Popped, retry::Backoff, transport::segment, value::millis};

/// Jobs of one pop.
const MAX_COUNT: usize = 100;
/// Time for the answer to the last pop after the shutdown began. Under load it arrives, and its
/// jobs are given back; a pop that waits is aborted, and the server keeps its jobs.
const LAST_ANSWER: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Popped>,
}

/// Pops jobs and starts their handlers until the shutdown.
///
/// # Errors
///
/// The refusal of the first pop that is answered.
pub(super) async fn until(
    shared: &Arc<Shared>,
    attempts: &mut JoinSet<()>,
    mut shutdown: Pin<&mut impl Future>,
) -> Result<(), Error> {
    let mut backoff = Backoff::new();
    let mut is_answered = false;
    loop {
        let free = select! {
            biased;
            _ = &mut shutdown => return Ok(()),
            free = shared.free_slots() => free,
        };
        while attempts.try_join_next().is_some() {}
        let pop = shared.pop(free);
        tokio::pin!(pop);
        let answer = select! {
            biased;
            answer = &mut pop => answer,
            _ = &mut shutdown => {
                if let Ok(Ok(jobs)) = tokio::time::timeout(LAST_ANSWER, pop).await {
                    for job in jobs {
                        attempts.spawn(attempt::give_back(Arc::clone(shared), job));
                    }
                }
                return Ok(());
            }
        };
        match answer {
            Ok(jobs) => {
                (is_answered, backoff) = (true, Backoff::new());
                shared.outage.popped();
                shared.start(jobs, attempts).await;
            }
            Err(error) if !is_answered && !error.is_passing() => return Err(error),
            Err(error) => {
                shared.outage.failed(&error);
                select! {
                    biased;
                    _ = &mut shutdown => return Ok(()),
                    () = tokio::time::sleep(backoff.wait(error.retry_after())) => {}
                }
            }
        }
    }
}

impl Shared {
    /// Waits for a free slot, and returns how many there are. Only the loop that pops takes
    /// slots, so the number can only grow afterwards.
    async fn free_slots(&self) -> usize {
        if let Ok(slot) = self.slots.acquire().await {
            drop(slot);
        }
        // Handlers that are about to end free their slots first, so that pops are fewer and larger.
        tokio::task::yield_now().await;
        self.slots.available_permits().clamp(1, MAX_COUNT)
    }

    async fn pop(&self, count: usize) -> Result<Vec<Popped>, Error> {
        let topics: Vec<&str> = self.handlers.iter().map(|(topic, _)| topic.as_str()).collect();
        let path = format!(
            "/topics/{}/pop?count={count}&wait={}ms&consumer={}",
            segment(&topics.join(",")),
            millis::ceil(self.wait),
            segment(&self.consumer)
        );
        let answer: Answer = self.queue.call_once(Method::GET, &path, None, self.wait).await?;
        Ok(answer.jobs)
    }

    async fn start(self: &Arc<Self>, jobs: Vec<Popped>, attempts: &mut JoinSet<()>) {
        let popped_at = Instant::now();
        for job in jobs {
            let handler = self.handlers.iter().find(|(topic, _)| *topic == job.topic);
            let Some((_, handler)) = handler.cloned() else {
                error!(job = job.id, topic = job.topic, "the server sent a job of another topic");
                attempts.spawn(attempt::give_back(Arc::clone(self), job));
                continue;
            };
            // There is a free slot for each job of a pop.
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
            attempts.spawn(attempt::run(Arc::clone(self), handler, job, popped_at, slot));
        }
    }
}
