//! Targets: what the pushes of one scheme, host and port share on this server.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use super::{
    gate::{Gate, Outcome},
    status::BreakerState,
    window::{Results, Window},
};

/// Time after which a recovering push may send a request whatever the others have under way, so
/// that one that hangs does not hold up the others.
const NEXT_RECOVERY: Duration = Duration::from_secs(1);

/// State of a target on this server.
pub struct Target {
    /// Scheme, host and port.
    pub name: String,
    /// Gate of all pushes to the target, which connections that fail close.
    pub host: Arc<Gate>,
    state: Mutex<State>,
}

struct State {
    /// Gates of the pushes to this target.
    pushes: Vec<Weak<Gate>>,
    /// Requests under way.
    in_flight: usize,
    window: Window,
    /// Maximum number of requests under way of pushes that fail or recover.
    limit: usize,
    /// Requests under way of pushes that fail or recover.
    recovering: usize,
    /// When the last one of them began.
    began: Option<Instant>,
}

/// How a request failed, or that it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The endpoint answered.
    Available,
    /// The endpoint answered that it cannot take requests now, or not in time.
    Busy,
    /// There was no connection.
    Unreachable,
    /// The request does not show how the endpoint is.
    Unknown,
}

/// Result of a request, as far as it concerns the breakers and figures.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Whether the endpoint accepted every job of the request.
    pub is_delivered: bool,
    /// How the endpoint is.
    pub health: Health,
    /// Whether the endpoint asked to send a job later.
    pub is_busy: bool,
    /// Time that the request took.
    pub time: Duration,
}

impl Ended {
    /// Returns the counts of the request.
    pub fn results(self) -> Results {
        let delivered = u32::from(self.is_delivered);
        let unavailable = u32::from(matches!(self.health, Health::Busy | Health::Unreachable));
        Results { delivered, failed: 1 - delivered, unavailable, time: self.time }
    }

    /// Returns the result for the gate of the host: connections.
    pub fn of_host(self) -> Outcome {
        match self.health {
            Health::Unreachable => Outcome::Unavailable,
            _ => Outcome::Available { is_busy: false },
        }
    }

    /// Returns the result for the gate of the push: answers. `None` if there is none.
    pub fn of_push(self) -> Option<Outcome> {
        match self.health {
            Health::Available => Some(Outcome::Available { is_busy: self.is_busy }),
            Health::Busy => Some(Outcome::Unavailable),
            Health::Unreachable | Health::Unknown => None,
        }
    }
}

impl Target {
    pub fn new(name: String, now: Instant) -> Self {
        let state = State {
            pushes: Vec::new(),
            in_flight: 0,
            window: Window::new(now),
            limit: 1,
            recovering: 0,
            began: None,
        };
        let host = Arc::new(Gate::new(name.clone(), now));
        Self { name, host, state: Mutex::new(state) }
    }

    /// Creates the gate of a push to this target.
    pub fn gate_of_push(&self, name: String, now: Instant) -> Arc<Gate> {
        let gate = Arc::new(Gate::new(name, now));
        let mut state = self.lock();
        state.pushes.retain(|gate| gate.strong_count() > 0);
        state.pushes.push(Arc::downgrade(&gate));
        gate
    }

    /// Counts a request of a push that fails or recovers, if the target may have one more: their
    /// number begins at one and doubles, so that many pushes do not return at the same time.
    pub fn recover(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let is_late = |at| now.saturating_duration_since(at) >= NEXT_RECOVERY;
        let may_begin = state.recovering < state.limit || state.began.is_none_or(is_late);
        if may_begin {
            state.recovering += 1;
            state.began = Some(now);
        }
        may_begin
    }

    /// Ends a request that [`Self::recover`] has counted.
    pub fn end_recovery(&self, outcome: Option<Outcome>) {
        let mut state = self.lock();
        state.recovering = state.recovering.saturating_sub(1);
        match outcome {
            Some(Outcome::Available { .. }) => state.limit = state.limit.saturating_add(1),
            Some(Outcome::Unavailable) => state.limit = (state.limit / 2).max(1),
            None => {}
        }
    }

    /// Counts a request that is sent.
    pub fn begin(&self) {
        self.lock().in_flight += 1;
    }

    /// Records the end of a request.
    pub fn end(&self, ended: Option<Ended>, now: Instant) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Some(ended) = ended {
            state.window.record(now, ended.results());
        }
    }

    /// Returns the worst state of the host and the pushes to it.
    pub fn breaker(&self) -> BreakerState {
        let pushes: Vec<_> = self.lock().pushes.iter().filter_map(Weak::upgrade).collect();
        let states = pushes.iter().chain([&self.host]).map(|gate| gate.breaker());
        states.max_by_key(|state| state.severity()).unwrap_or(BreakerState::Closed)
    }

    /// Returns whether requests to the host or of a push to it are only probes.
    pub fn is_open(&self) -> bool {
        self.breaker() == BreakerState::Open
    }

    /// Returns the requests under way.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    /// Returns delivered and failed requests a second, and the mean time of a request.
    pub fn recent(&self, now: Instant) -> ((f64, f64), Option<Duration>) {
        let state = self.lock();
        (state.window.rates(now), state.window.mean(now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_that_recover_return_in_doubling_numbers() {
        let (target, mut now) =
            (Target::new("http://a:80".to_owned(), Instant::now()), Instant::now());
        let available = Some(Outcome::Available { is_busy: false });
        for expected in [1, 2, 4, 8] {
            let begun = (0..100).filter(|_| target.recover(now)).count();
            assert_eq!(begun, expected);
            (0..begun).for_each(|_| target.end_recovery(available));
        }
        (0..4).for_each(|_| assert!(target.recover(now)));
        (0..4).for_each(|_| target.end_recovery(Some(Outcome::Unavailable)));
        assert!(target.recover(now) && !target.recover(now), "each failure halves the number");
        // A request that hangs holds up the others for a second.
        now += NEXT_RECOVERY;
        assert!(target.recover(now) && !target.recover(now));
        target.end_recovery(None);
        assert!(!target.recover(now));
    }

    #[test]
    fn a_target_shows_the_worst_state_of_its_pushes() {
        let now = Instant::now();
        let target = Target::new("http://a:80".to_owned(), now);
        let gates = ["a", "b"].map(|name| target.gate_of_push(name.to_owned(), now));
        assert_eq!(target.breaker(), BreakerState::Closed);
        let place = crate::push::share::Place { index: 0, servers: 1 };
        for _ in 0..10 {
            let mut pass = gates[1].enter(place, 1, now).expect("a pass");
            pass.set_result(Outcome::Unavailable, Duration::ZERO);
        }
        assert_eq!(
            (target.breaker(), target.host.breaker()),
            (BreakerState::Open, BreakerState::Closed)
        );
        drop(gates);
        assert_eq!(target.breaker(), BreakerState::Closed);
    }
}
