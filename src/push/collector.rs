//! Pops the jobs of requests, and collects those of batches.

use std::time::{Duration, Instant};

use futures::future::join_all;

use super::{sender::Sender, worker::Turn};
use crate::{
    job::PushBatch,
    queue::{PendingDelivery, Pop},
    store::StoreError,
};

/// How long a pop waits for jobs.
const WAIT: Duration = Duration::from_secs(20);
/// Maximum number of jobs of one pop.
pub const MAX_POP: usize = 100;
/// Total size of the bodies of one request, in bytes, at which it takes no more jobs, unless memory
/// allows less.
const MAX_BODIES: usize = 4 << 20;
/// Number of batches that are popped at once while batches are full.
pub const BATCHES: usize = 4;

/// Pops jobs for the requests of a push.
pub struct Collector<'a> {
    pub sender: &'a Sender,
}

/// Batches of jobs that are ready now.
pub struct ReadyBatches {
    /// Batches that need no more jobs.
    pub full: Vec<PendingDelivery>,
    /// A batch that may take more jobs; empty if there is none.
    pub part: PendingDelivery,
}

impl Collector<'_> {
    /// Returns the maximum number of jobs of a batch.
    pub fn max(&self) -> usize {
        self.sender.push.batch.map_or(usize::MAX, |batch| batch.max.into())
    }

    /// Returns the size of bodies at which a request or a pop takes no more jobs.
    fn max_bodies(&self) -> usize {
        MAX_BODIES.min(self.sender.shared.loads.max_pop())
    }

    /// Pops batches of jobs that are ready now, at most `count`.
    pub async fn ready_batches(&self, count: usize) -> ReadyBatches {
        let pops = (0..count).map(|_| self.pop(self.max(), Duration::ZERO, self.max_bodies()));
        let mut ready = ReadyBatches { full: Vec::new(), part: PendingDelivery::default() };
        // A bucket that is unavailable gives no jobs, and the next pop reports it.
        for delivery in join_all(pops).await.into_iter().flatten() {
            if self.is_full(&delivery) {
                ready.full.push(delivery);
            } else if ready.part.jobs().len() + delivery.jobs().len() <= self.max() {
                ready.part.join(delivery);
            } else {
                ready.full.push(std::mem::replace(&mut ready.part, delivery));
            }
        }
        if self.is_full(&ready.part) {
            ready.full.push(std::mem::take(&mut ready.part));
        }
        ready
    }

    /// Waits for the jobs of a turn, which may have a `part` of a batch already.
    ///
    /// # Errors
    /// The error of the pop, if there are no jobs.
    pub async fn collect(
        &self,
        part: PendingDelivery,
        turn: &Turn,
    ) -> Result<Vec<PendingDelivery>, StoreError> {
        let wait = if turn.is_limited { Duration::ZERO } else { WAIT };
        let Some(batch) = self.sender.push.batch else {
            return Ok(vec![self.pop(turn.flights.len(), wait, self.max_bodies()).await?]);
        };
        let first = match part.jobs().is_empty() {
            true => self.pop(self.max(), wait, self.max_bodies()).await?,
            false => part,
        };
        let first = if turn.is_limited { first } else { self.fill(first, batch).await };
        Ok(vec![first])
    }

    /// Adds the jobs that become ready while the first job of a batch lingers.
    async fn fill(&self, mut all: PendingDelivery, batch: PushBatch) -> PendingDelivery {
        let end = Instant::now() + Duration::from_millis(batch.linger);
        while !all.jobs().is_empty() && !self.is_full(&all) {
            let left = end.saturating_duration_since(Instant::now());
            let (count, enough) = (self.max() - all.jobs().len(), self.max_bodies() - all.bytes());
            match self.pop(count, left, enough).await {
                Ok(more) => all.join(more),
                // The jobs that were popped must not wait for a store that is unavailable.
                Err(_) => break,
            }
            if left.is_zero() {
                break;
            }
        }
        all
    }

    fn is_full(&self, delivery: &PendingDelivery) -> bool {
        delivery.jobs().len() >= self.max() || delivery.bytes() >= self.max_bodies()
    }

    async fn pop(
        &self,
        count: usize,
        wait: Duration,
        enough: usize,
    ) -> Result<PendingDelivery, StoreError> {
        let Sender { topic, shared, .. } = self.sender;
        let pop = Pop {
            topics: vec![topic.clone()],
            count: u16::try_from(count.min(MAX_POP)).unwrap_or(u16::MAX),
            ttr: Some(self.sender.ttr()),
            consumer: None,
            wait,
            enough,
        };
        shared.queue.pop(pop).await
    }
}
