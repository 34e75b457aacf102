//! Targets: what the pushes of one scheme, host and port share on this server.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{
    breaker::Breaker,
    share::Place,
    status::BreakerState,
    window::{Results, Window},
};
use crate::job::Millis;

/// Delay of a job that is released uncounted, unless the answer names one: doubles while the target
/// fails.
const FIRST_DELAY: Millis = Millis::new(5_000);
const LONGEST_DELAY: Millis = Millis::new(300_000);
/// Time over which the breaker compares failures with all requests, in seconds.
const BREAKER_SECONDS: u64 = 10;

/// State of a target on this server.
pub struct Target {
    /// Scheme, host and port.
    pub name: String,
    state: Mutex<State>,
    /// Notified when more or fewer requests are allowed.
    pub changed: Notify,
}

struct State {
    breaker: Breaker,
    window: Window,
    in_flight: usize,
    /// Time of the last probe of this server, in Unix seconds.
    last_probe: Option<u64>,
    retry_delay: Millis,
    /// When the delay was set or doubled; `None` since the last success.
    increased_at: Option<Instant>,
}

/// Result of a request, as far as it concerns the target.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Whether the endpoint accepted every job of the request.
    pub is_delivered: bool,
    /// Whether the request failed because of the target.
    pub is_target_failure: bool,
    /// Time that the request took.
    pub time: Duration,
    /// This server's share of the push's concurrency: the breaker closes when its limit reaches it.
    pub share: usize,
}

impl State {
    fn end_one(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

impl Ended {
    /// Returns the counts of the request.
    pub fn results(self) -> Results {
        let delivered = u32::from(self.is_delivered);
        let (failed, unavailable) = (1 - delivered, self.is_target_failure.into());
        Results { delivered, failed, unavailable, time: self.time }
    }
}

impl Target {
    pub fn new(name: String, now: Instant) -> Self {
        let state = State {
            breaker: Breaker::default(),
            window: Window::new(now),
            in_flight: 0,
            last_probe: None,
            retry_delay: FIRST_DELAY,
            increased_at: None,
        };
        Self { name, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Returns how many more requests the breaker allows now; `None` without a limit.
    pub fn room(&self) -> Option<usize> {
        let state = self.lock();
        state.breaker.limit().map(|limit| limit.saturating_sub(state.in_flight))
    }

    /// Takes this second's probe of a target whose breaker is open. Returns whether this server may
    /// send it.
    pub fn take_probe(&self, place: Place, second: u64) -> bool {
        let mut state = self.lock();
        let is_free = state.breaker.state() == BreakerState::Open
            && place.has_turn(second)
            && state.last_probe != Some(second);
        if is_free {
            state.last_probe = Some(second);
        }
        is_free
    }

    /// Returns a probe that was not sent, so that another push can send it.
    pub fn give_probe_back(&self) {
        self.lock().last_probe = None;
    }

    /// Records that requests begin.
    pub fn begin(&self, count: usize) {
        self.lock().in_flight += count;
    }

    /// Records that a request ended without a result.
    pub fn abandon(&self) {
        self.lock().end_one();
        self.changed.notify_waiters();
    }

    /// Records the end of a request.
    pub fn end(&self, ended: Ended, now: Instant) {
        let mut state = self.lock();
        state.end_one();
        state.window.record(now, ended.results());
        let before = (state.breaker.state(), state.breaker.limit());
        if ended.is_target_failure {
            let recent = state.window.last(now, BREAKER_SECONDS);
            state.breaker.record_failure(recent);
        } else {
            state.breaker.record_available(ended.share);
            (state.retry_delay, state.increased_at) = (FIRST_DELAY, None);
        }
        let after = (state.breaker.state(), state.breaker.limit());
        drop(state);
        if before.0 != after.0 {
            tracing::info!(
                target = self.name,
                state = after.0.name(),
                "the target of a push changed"
            );
        }
        if before != after {
            self.changed.notify_waiters();
        }
    }

    /// Returns the delay for a job that is released uncounted. Doubles it if it has passed since it
    /// was doubled last.
    pub fn retry_delay(&self, now: Instant) -> Millis {
        let mut state = self.lock();
        match state.increased_at {
            None => state.increased_at = Some(now),
            Some(at) if now.saturating_duration_since(at) >= state.retry_delay.into() => {
                state.retry_delay = Millis::new(state.retry_delay.get() * 2).min(LONGEST_DELAY);
                state.increased_at = Some(now);
            }
            Some(_) => {}
        }
        state.retry_delay
    }

    /// Returns the state of the breaker.
    pub fn breaker(&self) -> BreakerState {
        self.lock().breaker.state()
    }

    /// Returns whether the breaker is open.
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

    const ILL: Ended = Ended {
        is_delivered: false,
        is_target_failure: true,
        time: Duration::from_millis(3),
        share: 4,
    };
    const WELL: Ended = Ended { is_delivered: true, is_target_failure: false, ..ILL };

    fn open(now: Instant) -> Target {
        let target = Target::new("http://a:80".to_owned(), now);
        for _ in 0..10 {
            target.begin(1);
            target.end(ILL, now);
        }
        target
    }

    #[test]
    fn an_open_target_is_probed_once_a_second() {
        let target = open(Instant::now());
        assert_eq!((target.breaker(), target.room()), (BreakerState::Open, Some(0)));
        let place = Place { index: 1, servers: 2 };
        assert!(!target.take_probe(place, 10), "the other server has the turn");
        assert!(target.take_probe(place, 11) && !target.take_probe(place, 11));
        target.give_probe_back();
        assert!(target.take_probe(place, 11));
        target.begin(1);
        target.end(WELL, Instant::now());
        assert_eq!((target.breaker(), target.room()), (BreakerState::Recovering, Some(1)));
        assert!(!target.take_probe(place, 13));
        target.begin(1);
        assert_eq!(target.room(), Some(0));
        target.abandon();
        assert_eq!((target.room(), target.in_flight()), (Some(1), 0));
    }

    #[test]
    fn the_delay_doubles_each_time_it_has_passed() {
        let start = Instant::now();
        let target = open(start);
        let at = |seconds| target.retry_delay(start + Duration::from_secs(seconds)).get();
        assert_eq!([at(0), at(1), at(4)], [5_000; 3]);
        assert_eq!([at(5), at(14)], [10_000; 2]);
        assert_eq!(at(15), 20_000);
        assert_eq!([at(100), at(200), at(400), at(1_000)], [40_000, 80_000, 160_000, 300_000]);
        assert_eq!(at(2_000), 300_000);
        target.begin(1);
        target.end(WELL, start);
        assert_eq!(at(2_001), 5_000);
    }
}
