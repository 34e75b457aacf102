//! Pops the jobs of one push and starts their requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    collector::{BATCHES, Collector, MAX_POP},
    flight::Flight,
    sender::Sender,
    share::Place,
};
use crate::{queue::PendingDelivery, store::Clock};

/// Maximum time that a worker waits for a quarter of its requests to become free, so that one pop
/// serves several of them.
const GATHER: Duration = Duration::from_millis(2);
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
#[derive(Default)]
struct Progress {
    /// When the worker stops waiting for more free requests; `None` if it does not wait.
    gather_until: Option<Instant>,
    /// Whether the last batch was full.
    is_busy: bool,
}

/// Requests that may begin now.
pub struct Turn {
    pub count: usize,
    /// The second for which the request probes a target that fails; `None` if it does not probe.
    pub probe: Option<u64>,
    /// This server's share of the concurrency.
    pub share: usize,
}

impl Worker {
    /// Runs until the worker is stopped.
    pub async fn run(self) {
        let (lane, target) = (&self.sender.lane, &self.sender.target);
        let mut progress = Progress::default();
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
                () = lane.freed.notified() => {}
                () = target.changed.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Returns the requests that may begin now, or how long to wait if there are none.
    fn turn(&self, progress: &mut Progress) -> Result<Turn, Duration> {
        let (place, share) = self.share().ok_or(TICK)?;
        let target = &self.sender.target;
        let free = self.sender.lane.room(share);
        let (wanted, probe) = if target.is_open() {
            let second = Clock::Own.now().floor.get() / 1_000;
            if !target.take_probe(place, second) {
                return Err(PROBE_TICK);
            }
            (1, Some(second))
        } else {
            progress.gather(free > 0 && free < share.div_ceil(4))?;
            (target.room().map_or(free, |room| free.min(room)), None)
        };
        if wanted == 0 {
            return Err(TICK);
        }
        let most = match self.sender.push.batch {
            None => MAX_POP,
            Some(batch) if progress.is_busy && usize::from(batch.max) <= MAX_POP => BATCHES,
            Some(_) => 1,
        };
        let count = self.within_rate(place, wanted.min(most));
        let count = count.inspect_err(|_| self.give_probe_back(probe))?;
        Ok(Turn { count, probe, share })
    }

    /// Returns how many of the requests the rate allows now, or how long to wait if it allows none.
    fn within_rate(&self, place: Place, wanted: usize) -> Result<usize, Duration> {
        let Some(rate) = self.sender.push.rate else { return Ok(wanted) };
        let count = usize::try_from(rate.count()).unwrap_or(usize::MAX);
        let part = (place.part_of(count), rate.period());
        let taken = self.sender.lane.limiter().take(part, wanted, Instant::now());
        // The place of this server may change meanwhile.
        taken.map_err(|wait| wait.min(TICK))
    }

    fn give_probe_back(&self, probe: Option<u64>) {
        if let Some(second) = probe {
            self.sender.target.give_probe_back(second);
        }
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
        let collector = Collector { sender: &self.sender };
        let (mut begun, mut part) = (0, PendingDelivery::default());
        if progress.is_busy {
            let ready = collector.ready_batches(turn.count).await;
            begun = self.start(ready.full, turn.share);
            part = ready.part;
        }
        progress.is_busy = begun > 0;
        let is_done = begun > 0 && part.jobs().is_empty();
        let popped = tokio::select! {
            biased;
            () = async {}, if is_done => Ok(Vec::new()),
            () = self.stop.cancelled() => Ok(Vec::new()),
            popped = collector.collect(part, &turn) => popped,
            () = self.until_limit_drops(&turn) => Ok(Vec::new()),
        };
        let pause = match popped {
            Ok(requests) => {
                let is_full = |one: &PendingDelivery| one.jobs().len() >= collector.max();
                progress.is_busy |= requests.iter().any(is_full);
                begun += self.start(requests, turn.share);
                Duration::ZERO
            }
            Err(error) => {
                tracing::debug!(topic = %self.sender.topic, %error, "a push failed to pop jobs");
                TICK
            }
        };
        self.sender.lane.limiter().give_back(turn.count.saturating_sub(begun));
        if turn.probe.is_some() && begun == 0 {
            self.give_probe_back(turn.probe);
            return PROBE_TICK.max(pause);
        }
        pause
    }

    /// Waits until fewer requests may begin than the turn has counted.
    async fn until_limit_drops(&self, turn: &Turn) {
        let sender = &self.sender;
        if turn.probe.is_some() {
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

    /// Starts the requests of deliveries, each for one batch or for single jobs, and returns how
    /// many there are. A stopped worker gives the jobs back, and so does one that has held them for
    /// so long that their TTR could end during the request.
    fn start(&self, deliveries: Vec<PendingDelivery>, share: usize) -> usize {
        let sender = &self.sender;
        let is_late = |delivery: &PendingDelivery| delivery.age() > sender.longest_hold();
        let mut requests = Vec::new();
        for delivery in deliveries {
            if delivery.jobs().is_empty() || self.stop.is_cancelled() || is_late(&delivery) {
                continue;
            }
            let jobs = delivery.keep();
            match sender.push.batch {
                Some(_) => requests.push(jobs),
                None => requests.extend(jobs.into_iter().map(|job| vec![job])),
            }
        }
        let count = requests.len();
        for jobs in requests {
            let flight = Flight::begin(&sender.lane, &sender.target, share);
            sender.shared.tasks.spawn(Arc::clone(sender).send(jobs, flight));
        }
        count
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
