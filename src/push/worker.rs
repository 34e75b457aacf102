//! Pops the jobs of one push and starts their requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{future::join_all, join};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{limiter::Limiter, sender::Sender, share::Place, status::BreakerState};
use crate::{
    job::{Millis, PoppedJob, PushBatch},
    queue::{PendingDelivery, Pop},
    store::{Clock, StoreError},
};

/// Time by which the TTR of a pushed job exceeds that of its request.
const MARGIN: Millis = Millis::new(10_000);
/// How long a pop waits for jobs.
const WAIT: Duration = Duration::from_secs(20);
/// Maximum number of jobs of one pop.
const MAX_POP: usize = 100;
/// Total size of the bodies of one request, in bytes, at which it takes no more jobs.
const MAX_BODIES: usize = 4 << 20;
/// Maximum time that a worker waits for a quarter of its requests to become free, so that one pop
/// serves several of them.
const GATHER: Duration = Duration::from_millis(2);
/// Number of batches that are collected at once while every batch is full.
const BATCHES: usize = 4;
/// Time between two looks at the share of this server and the state of the target.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks while the target is open, so that no probe of this server is missed.
const PROBE_TICK: Duration = Duration::from_millis(200);

/// A worker of one version of a push.
pub struct Worker {
    pub sender: Arc<Sender>,
    /// Ends the worker; requests under way continue.
    pub stop: CancellationToken,
}

/// State of a worker between two turns.
struct Progress {
    limiter: Limiter,
    /// When the worker stops waiting for more free requests; `None` if it does not wait.
    gather_until: Option<Instant>,
    /// Whether the last batches were full.
    is_busy: bool,
}

/// Requests that may begin now.
struct Turn {
    count: usize,
    /// Whether the request probes a target that fails.
    is_probe: bool,
    /// This server's share of the concurrency.
    share: usize,
}

impl Worker {
    /// Runs until the worker is stopped.
    pub async fn run(self) {
        let limiter = Limiter::new(Instant::now());
        let mut progress = Progress { limiter, gather_until: None, is_busy: false };
        while !self.stop.is_cancelled() {
            let pause = match self.turn(&mut progress) {
                Ok(turn) => self.take(turn, &mut progress).await,
                Err(pause) => pause,
            };
            if pause.is_zero() {
                continue;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.sender.lane.freed.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Returns the requests that may begin now, or how long to wait if there are none.
    fn turn(&self, progress: &mut Progress) -> Result<Turn, Duration> {
        let (place, share) = self.share().ok_or(TICK)?;
        let free = self.sender.lane.room(share);
        if free == 0 {
            return Err(TICK);
        }
        progress.gather(free < share.div_ceil(4))?;
        let target = &self.sender.target;
        let is_probe = target.breaker() == BreakerState::Open;
        let wanted = match target.room() {
            _ if is_probe => {
                let second = Clock::Own.now().floor.get() / 1_000;
                usize::from(target.take_probe(place, second))
            }
            room => room.map_or(free, |room| free.min(room)),
        };
        if wanted == 0 {
            return Err(if is_probe { PROBE_TICK } else { TICK });
        }
        let most = match self.sender.push.batch {
            None => MAX_POP,
            Some(batch) if progress.is_busy && usize::from(batch.max) <= MAX_POP => BATCHES,
            Some(_) => 1,
        };
        let wanted = wanted.min(most);
        let count = match self.sender.push.rate {
            None => wanted,
            Some(rate) => {
                let count = usize::try_from(rate.count()).unwrap_or(usize::MAX);
                let part = (place.part_of(count), rate.period());
                progress.limiter.take(part, wanted, Instant::now()).inspect_err(|_| {
                    if is_probe {
                        target.give_probe_back();
                    }
                })?
            }
        };
        Ok(Turn { count, is_probe, share })
    }

    /// Returns the place of this server and its share of the concurrency; `None` if it has none.
    fn share(&self) -> Option<(Place, usize)> {
        let shared = &self.sender.shared;
        let place = shared.places.current(&shared.queue)?;
        let share = place.part_of(self.sender.push.concurrency.into());
        Some((place, share)).filter(|_| share > 0)
    }

    /// Pops jobs for these requests and starts them. Returns how long to wait before the next turn.
    async fn take(&self, turn: Turn, progress: &mut Progress) -> Duration {
        let wait = if turn.is_probe { Duration::ZERO } else { WAIT };
        let popped = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(Vec::new()),
            popped = self.collect(turn.count, wait) => popped,
            () = self.until_limit_drops(&turn) => Ok(Vec::new()),
        };
        let (requests, pause) = match popped {
            // A stopped worker gives its jobs back.
            _ if self.stop.is_cancelled() => (Vec::new(), Duration::ZERO),
            Ok(deliveries) => (self.requests(deliveries), Duration::ZERO),
            Err(error) => {
                tracing::debug!(topic = %self.sender.topic, %error, "a push failed to pop jobs");
                (Vec::new(), TICK)
            }
        };
        let max = self.sender.push.batch.map_or(usize::MAX, |batch| batch.max.into());
        progress.is_busy = !requests.is_empty() && requests.iter().all(|jobs| jobs.len() >= max);
        progress.limiter.give_back(turn.count - requests.len());
        if turn.is_probe && requests.is_empty() {
            self.sender.target.give_probe_back();
            return PROBE_TICK.max(pause);
        }
        self.start(requests, turn.share);
        pause
    }

    /// Pops the jobs of some requests: all in one delivery, or a delivery for each batch.
    async fn collect(
        &self,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<PendingDelivery>, StoreError> {
        let Some(batch) = self.sender.push.batch else {
            return Ok(vec![self.pop(count, wait).await?]);
        };
        // Only the first batch waits for jobs; the others take those that are ready now.
        let max = batch.max.into();
        let others = (1..count).map(|_| self.pop(max, Duration::ZERO));
        let (first, others) = join!(self.batch(batch, wait), join_all(others));
        Ok([first?].into_iter().chain(others.into_iter().flatten()).collect())
    }

    /// Pops the jobs of one batch.
    async fn batch(&self, batch: PushBatch, wait: Duration) -> Result<PendingDelivery, StoreError> {
        let max = usize::from(batch.max);
        let mut all = self.pop(max, wait).await?;
        let end = Instant::now() + Duration::from_millis(batch.linger);
        while !all.jobs().is_empty() && all.jobs().len() < max && all.bytes() < MAX_BODIES {
            let left = end.saturating_duration_since(Instant::now());
            match self.pop(max - all.jobs().len(), left).await {
                Ok(more) => all.join(more),
                // The jobs that were popped must not wait for a store that is unavailable.
                Err(_) => break,
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(all)
    }

    /// Returns the jobs of each request.
    fn requests(&self, deliveries: Vec<PendingDelivery>) -> Vec<Vec<PoppedJob>> {
        let jobs = deliveries.into_iter().map(PendingDelivery::keep);
        match self.sender.push.batch {
            Some(_) => jobs.filter(|jobs| !jobs.is_empty()).collect(),
            None => jobs.flatten().map(|job| vec![job]).collect(),
        }
    }

    async fn pop(&self, count: usize, wait: Duration) -> Result<PendingDelivery, StoreError> {
        let Sender { push, topic, shared, .. } = &*self.sender;
        let linger = push.batch.map_or(0, |batch| batch.linger);
        let pop = Pop {
            topics: vec![topic.clone()],
            count: u16::try_from(count.min(MAX_POP)).unwrap_or(u16::MAX),
            ttr: Some(Millis::new(push.timeout().get() + linger + MARGIN.get())),
            consumer: None,
            wait,
            enough: MAX_BODIES,
        };
        shared.queue.pop(pop).await
    }

    /// Waits until fewer requests may begin than the turn has counted.
    async fn until_limit_drops(&self, turn: &Turn) {
        let sender = &self.sender;
        if turn.is_probe {
            return std::future::pending().await;
        }
        loop {
            tokio::select! {
                () = sleep(TICK) => {}
                () = sender.target.changed.notified() => {}
            }
            let free = self.share().map_or(0, |(_, share)| sender.lane.room(share));
            if sender.target.room().map_or(free, |room| free.min(room)) < turn.count {
                return;
            }
        }
    }

    fn start(&self, requests: Vec<Vec<PoppedJob>>, share: usize) {
        self.sender.lane.begin(requests.len());
        self.sender.target.begin(requests.len());
        for jobs in requests {
            let sender = Arc::clone(&self.sender);
            self.sender.shared.tasks.spawn(sender.send(jobs, share));
        }
    }
}

impl Progress {
    /// Waits a moment for more free requests if `is_short`.
    ///
    /// # Errors
    /// The time left to wait.
    fn gather(&mut self, is_short: bool) -> Result<(), Duration> {
        let until = *self.gather_until.get_or_insert_with(|| Instant::now() + GATHER);
        let left = until.saturating_duration_since(Instant::now());
        if is_short && !left.is_zero() {
            return Err(left);
        }
        self.gather_until = None;
        Ok(())
    }
}
