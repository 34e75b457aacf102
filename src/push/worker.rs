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
    load::Load,
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
    /// Size of bodies for which there was no memory; 0 if there was.
    needed: usize,
}

/// Requests that may begin now.
pub struct Turn {
    /// A place for each of them.
    pub flights: Vec<Flight>,
    /// Whether a breaker limits them. Then they wait for no jobs, since other pushes may have some.
    pub is_limited: bool,
}

impl Worker {
    /// Runs until the worker is stopped.
    pub async fn run(self) {
        let Sender { lane, target, gate, topic, .. } = &*self.sender;
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
                () = target.host.changed.notified() => {}
                () = gate.changed.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
        target.host.set_share(topic, 0);
        lane.set_waiting(false);
    }

    /// Takes a place for each request that may begin now, or returns how long to wait if there are
    /// none.
    fn turn(&self, progress: &mut Progress) -> Result<Turn, Duration> {
        let Sender { lane, target, gate, topic, push, .. } = &*self.sender;
        let (place, share) = self.share().ok_or(TICK)?;
        target.host.set_share(topic, share);
        gate.set_share(topic, share);
        let free = lane.room(share);
        if free == 0 {
            return Err(TICK);
        }
        if progress.needed > 0 && lane.loads.take(progress.needed, 1).is_none() {
            return Err(PROBE_TICK);
        }
        progress.needed = 0;
        lane.set_waiting(false);
        progress.gather(free < share.div_ceil(4))?;
        let most = match push.batch {
            None => MAX_POP,
            Some(batch) if progress.is_busy && usize::from(batch.max) <= MAX_POP => BATCHES,
            Some(_) => 1,
        };
        let second = Clock::Own.now().floor.get() / 1_000;
        let reserve = || Flight::reserve(lane, target, gate, (place, share), second);
        let mut flights: Vec<Flight> = std::iter::from_fn(reserve).take(free.min(most)).collect();
        if flights.is_empty() {
            return Err(PROBE_TICK);
        }
        flights.truncate(self.within_rate(place, flights.len())?);
        let is_limited = flights.iter().any(Flight::is_limited);
        Ok(Turn { flights, is_limited })
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

    /// Returns the place of this server and its share of the concurrency; `None` if it has none.
    fn share(&self) -> Option<(Place, usize)> {
        let shared = &self.sender.shared;
        let place = shared.places.current(&shared.queue)?;
        let share = place.part_of(self.sender.push.concurrency.into());
        Some((place, share)).filter(|_| share > 0)
    }

    /// Pops jobs for these requests and starts them. Returns how long to wait before the next turn.
    async fn take(&self, mut turn: Turn, progress: &mut Progress) -> Duration {
        let collector = Collector { sender: &self.sender };
        let lane = &self.sender.lane;
        let (allowed, mut part) = (turn.flights.len(), PendingDelivery::default());
        if progress.is_busy {
            let ready = collector.ready_batches(allowed).await;
            progress.needed = self.start(ready.full, &mut turn);
            part = ready.part;
        }
        progress.is_busy = turn.flights.len() < allowed;
        let is_done = progress.is_busy && part.jobs().is_empty();
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
                progress.needed = progress.needed.max(self.start(requests, &mut turn));
                lane.set_waiting(progress.needed > 0);
                Duration::ZERO
            }
            Err(error) => {
                tracing::debug!(topic = %self.sender.topic, %error, "a push failed to pop jobs");
                TICK
            }
        };
        lane.limiter().give_back(turn.flights.len());
        match turn.is_limited && turn.flights.len() == allowed {
            true => PROBE_TICK.max(pause),
            false => pause,
        }
    }

    /// Waits until fewer requests may begin than the turn has places for.
    async fn until_limit_drops(&self, turn: &Turn) {
        let Sender { lane, target, gate, .. } = &*self.sender;
        loop {
            tokio::select! {
                () = sleep(TICK) => {}
                () = target.host.changed.notified() => {}
                () = gate.changed.notified() => {}
            }
            let exceeds = self.share().is_none_or(|(_, share)| lane.exceeds(share));
            if exceeds || !turn.flights.iter().all(Flight::is_valid) {
                return;
            }
        }
    }

    /// Starts the requests of deliveries, each for one batch or for single jobs, in places of the
    /// turn. Gives the other jobs back: without a place, of a stopped worker, without memory, or
    /// held for so long that their TTR could end during the request. Returns the size of bodies for
    /// which there was no memory.
    fn start(&self, deliveries: Vec<PendingDelivery>, turn: &mut Turn) -> usize {
        let sender = &self.sender;
        let is_late = |delivery: &PendingDelivery| delivery.age() > sender.longest_hold();
        let mut needed = 0;
        for mut delivery in deliveries {
            let Some(mut load) = self.load(&mut delivery) else {
                needed = delivery.bytes();
                continue;
            };
            let jobs = delivery.jobs().len();
            let requests = if sender.push.batch.is_some() { jobs.min(1) } else { jobs };
            let first = turn.flights.len().checked_sub(requests);
            let Some(first) = first.filter(|_| !self.stop.is_cancelled() && !is_late(&delivery))
            else {
                continue;
            };
            if requests == 0 || !turn.flights[first..].iter().all(Flight::is_valid) {
                continue;
            }
            let jobs = delivery.keep();
            let requests = match sender.push.batch {
                Some(_) => vec![jobs],
                None => jobs.into_iter().map(|job| vec![job]).collect(),
            };
            for (jobs, mut flight) in requests.into_iter().zip(turn.flights.drain(first..)) {
                flight.sent();
                let load = load.split(jobs.iter().map(|job| job.body.len()).sum());
                // In a box, since a task's future is moved several times before it runs.
                sender.shared.tasks.spawn(Box::pin(Arc::clone(sender).send(jobs, flight, load)));
            }
        }
        needed
    }

    /// Takes memory for the bodies of a delivery, and gives jobs of it back until they fit. `None`
    /// if a single job does not fit.
    fn load(&self, delivery: &mut PendingDelivery) -> Option<Load> {
        loop {
            match self.sender.lane.loads.take(delivery.bytes(), delivery.jobs().len()) {
                None if delivery.jobs().len() > 1 => delivery.halve(),
                load => return load,
            }
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
