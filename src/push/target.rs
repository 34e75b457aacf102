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
/// Time without a result after which an open breaker allows one request again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

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
    /// Number of the breaker's state. Results of requests that began in an earlier state do not
    /// change the breaker.
    epoch: u64,
    /// When the breaker last changed or got a result.
    heard: Instant,
    /// Requests under way that began in this state.
    in_epoch: usize,
    /// All requests under way.
    in_flight: usize,
    /// Largest share of a push to this target.
    share: usize,
    /// Results since the breaker changed.
    since_change: Window,
    window: Window,
    /// Time of the last probe of this server, in Unix seconds.
    last_probe: Option<u64>,
    retry_delay: Millis,
    /// When the delay was set or doubled; `None` since the last success.
    increased_at: Option<Instant>,
}

/// Result of a request for its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The target answered.
    Available,
    /// The request failed because of the target.
    Unavailable,
    /// The request does not show how the target is.
    Unknown,
}

/// Result of a request, as far as it concerns the target.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Whether the endpoint accepted every job of the request.
    pub is_delivered: bool,
    /// Whether the target works.
    pub health: Health,
    /// Whether the endpoint asked to send a job later.
    pub is_busy: bool,
    /// Time that the request took.
    pub time: Duration,
}

impl State {
    /// Changes the breaker. If its state is another one then, requests under way count no longer.
    fn change(&mut self, now: Instant, change: impl FnOnce(&mut Breaker)) -> bool {
        let before = self.breaker.state();
        change(&mut self.breaker);
        self.heard = now;
        let has_changed = self.breaker.state() != before;
        if has_changed {
            self.epoch += 1;
            self.in_epoch = 0;
            self.since_change = Window::new(now);
        }
        has_changed
    }
}

impl Ended {
    /// Returns the counts of the request.
    pub fn results(self) -> Results {
        let delivered = u32::from(self.is_delivered);
        let unavailable = u32::from(self.health == Health::Unavailable);
        Results { delivered, failed: 1 - delivered, unavailable, time: self.time }
    }
}

impl Target {
    pub fn new(name: String, now: Instant) -> Self {
        let state = State {
            breaker: Breaker::default(),
            epoch: 0,
            heard: now,
            in_epoch: 0,
            in_flight: 0,
            share: 0,
            since_change: Window::new(now),
            window: Window::new(now),
            last_probe: None,
            retry_delay: FIRST_DELAY,
            increased_at: None,
        };
        Self { name, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Returns how many more requests the breaker allows now; `None` without a limit.
    pub fn room(&self) -> Option<usize> {
        let state = self.lock();
        state.breaker.limit().map(|limit| limit.saturating_sub(state.in_epoch))
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

    /// Returns the probe of a second that was not sent, so that another push can send it.
    pub fn give_probe_back(&self, second: u64) {
        let mut state = self.lock();
        if state.last_probe == Some(second) {
            state.last_probe = None;
        }
    }

    /// Counts a request and returns the number of the breaker's state. `share` is this server's
    /// share of the push's concurrency.
    pub fn begin(&self, share: usize) -> u64 {
        let mut state = self.lock();
        state.in_flight += 1;
        state.in_epoch += 1;
        state.share = state.share.max(share);
        state.epoch
    }

    /// Records the end of a request that began in state `epoch`; `ended` is `None` if it has no
    /// result.
    pub fn end(&self, epoch: u64, ended: Option<Ended>, now: Instant) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        let is_current = epoch == state.epoch;
        if is_current {
            state.in_epoch = state.in_epoch.saturating_sub(1);
        }
        let is_limited = state.breaker.limit().is_some();
        let mut has_changed = false;
        if let Some(ended) = ended {
            state.window.record(now, ended.results());
            if ended.health == Health::Available && !ended.is_busy {
                (state.retry_delay, state.increased_at) = (FIRST_DELAY, None);
            }
            if is_current {
                state.since_change.record(now, ended.results());
                let (share, recent) = (state.share, state.since_change.last(now, BREAKER_SECONDS));
                has_changed = state.change(now, |breaker| match ended.health {
                    Health::Available => breaker.record_available(share),
                    Health::Unavailable => breaker.record_failure(recent),
                    Health::Unknown => {}
                });
            }
        }
        let name = state.breaker.state().name();
        drop(state);
        if has_changed {
            tracing::info!(target = self.name, state = name, "the target of a push changed");
        }
        if has_changed || is_limited {
            self.changed.notify_waiters();
        }
    }

    /// Returns the delay for a job that is released uncounted. Doubles it if it has passed since it
    /// was doubled last.
    pub fn retry_delay(&self, now: Instant) -> Millis {
        let mut state = self.lock();
        match state.increased_at {
            None => state.increased_at = Some(now),
            Some(at) if now.saturating_duration_since(at) >= Duration::from(state.retry_delay) => {
                state.retry_delay = Millis::new(state.retry_delay.get() * 2).min(LONGEST_DELAY);
                state.increased_at = Some(now);
            }
            Some(_) => {}
        }
        state.retry_delay
    }

    /// Returns the state of the breaker. An open breaker that nothing has probed for a minute, for
    /// instance since no job is ready, allows one request again.
    pub fn breaker(&self) -> BreakerState {
        let (mut state, now) = (self.lock(), Instant::now());
        let is_forgotten = now.saturating_duration_since(state.heard) >= FORGOTTEN_AFTER;
        if is_forgotten && state.in_flight == 0 {
            state.change(now, Breaker::recover);
        }
        state.breaker.state()
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
mod tests;
