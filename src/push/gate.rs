//! Gates: a circuit breaker with an account of the requests that it lets through. The requests of a
//! push pass the gate of their host and that of the push.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{
    breaker::Breaker,
    share::Place,
    status::BreakerState,
    window::{Results, Window},
};
use crate::job::{Millis, Topic};

/// Delay of a job that is released uncounted, unless the answer names one: doubles while requests
/// fail.
const FIRST_DELAY: Millis = Millis::new(5_000);
const LONGEST_DELAY: Millis = Millis::new(300_000);
/// Time over which the breaker compares failures with all requests, in seconds.
const BREAKER_SECONDS: u64 = 10;
/// Time without a result after which an open breaker allows one request again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Time without a failure or a refusal after which a recovering breaker closes.
const RECOVERED_AFTER: Duration = Duration::from_secs(10);

/// A gate on this server.
pub struct Gate {
    /// Host or push behind the gate, for the log.
    name: String,
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
    /// When the breaker last changed, counted a failure or refused a request.
    pressed: Instant,
    /// Requests that entered in this state and did not end.
    in_epoch: usize,
    /// This server's share of the concurrency of each push behind the gate.
    shares: HashMap<Topic, usize>,
    /// Results since the breaker changed.
    since_change: Window,
    /// Time of the last probe of this server, in Unix seconds.
    last_probe: Option<u64>,
    retry_delay: Millis,
    /// When the delay was set or doubled; `None` since the last success.
    increased_at: Option<Instant>,
}

/// Result of a request for a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint works; if `is_busy`, it asked to send some job later.
    Available { is_busy: bool },
    /// The request failed because of the host or push behind the gate.
    Unavailable,
}

/// A request that has entered a gate. Its drop ends it, without a result unless it has one.
pub struct Pass {
    gate: Arc<Gate>,
    epoch: u64,
    /// Whether the breaker allowed only some requests.
    pub is_limited: bool,
    /// The second for which the request probes.
    probe: Option<u64>,
    is_sent: bool,
    result: Option<(Outcome, Duration)>,
}

impl State {
    /// Changes the breaker. If its state is another one then, requests under way count no longer.
    fn change(&mut self, now: Instant, change: impl FnOnce(&mut Breaker)) -> bool {
        let before = self.breaker.state();
        change(&mut self.breaker);
        let has_changed = self.breaker.state() != before;
        if has_changed {
            self.epoch += 1;
            self.in_epoch = 0;
            self.since_change = Window::new(now);
            (self.heard, self.pressed) = (now, now);
        }
        has_changed
    }

    /// Ends states that no request ends: an open breaker that nothing has probed for a minute, for
    /// instance since no job is ready, and a recovery that limits no request.
    fn age(&mut self, now: Instant) {
        let since = |at: Instant| now.saturating_duration_since(at);
        match self.breaker.state() {
            BreakerState::Open if self.in_epoch == 0 && since(self.heard) >= FORGOTTEN_AFTER => {
                self.change(now, Breaker::recover);
            }
            BreakerState::Recovering if since(self.pressed) >= RECOVERED_AFTER => {
                self.change(now, Breaker::close);
            }
            _ => {}
        }
    }
}

impl Gate {
    pub fn new(name: String, now: Instant) -> Self {
        let state = State {
            breaker: Breaker::default(),
            epoch: 0,
            heard: now,
            pressed: now,
            in_epoch: 0,
            shares: HashMap::new(),
            since_change: Window::new(now),
            last_probe: None,
            retry_delay: FIRST_DELAY,
            increased_at: None,
        };
        Self { name, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Lets a request enter if the breaker allows one more. An open one allows a probe in each
    /// second in which this server has its turn.
    pub fn enter(self: &Arc<Self>, place: Place, second: u64, now: Instant) -> Option<Pass> {
        let mut state = self.lock();
        state.age(now);
        let limit = state.breaker.limit();
        let is_open = state.breaker.state() == BreakerState::Open;
        let may_enter = match is_open {
            true => place.has_turn(second) && state.last_probe != Some(second),
            false => limit.is_none_or(|limit| state.in_epoch < limit),
        };
        if !may_enter {
            state.pressed = now;
            return None;
        }
        state.in_epoch += 1;
        if is_open {
            state.last_probe = Some(second);
        }
        Some(Pass {
            gate: Arc::clone(self),
            epoch: state.epoch,
            is_limited: limit.is_some(),
            probe: is_open.then_some(second),
            is_sent: false,
            result: None,
        })
    }

    /// Sets this server's share of the concurrency of a push behind the gate; 0 removes it.
    pub fn set_share(&self, topic: &Topic, share: usize) {
        let mut state = self.lock();
        if share == 0 {
            state.shares.remove(topic);
        } else if state.shares.get(topic) != Some(&share) {
            state.shares.insert(topic.clone(), share);
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

    /// Returns the state of the breaker.
    pub fn breaker(&self) -> BreakerState {
        let mut state = self.lock();
        state.age(Instant::now());
        state.breaker.state()
    }

    /// Returns whether the breaker is open.
    pub fn is_open(&self) -> bool {
        self.breaker() == BreakerState::Open
    }

    /// Records the end of a request.
    fn leave(&self, pass: &Pass, now: Instant) {
        let mut state = self.lock();
        let is_current = pass.epoch == state.epoch;
        if is_current {
            state.in_epoch = state.in_epoch.saturating_sub(1);
        }
        if !pass.is_sent && pass.probe.is_some() && state.last_probe == pass.probe {
            // Another request may probe instead.
            state.last_probe = None;
        }
        let is_limited = state.breaker.limit().is_some();
        let mut has_changed = false;
        if let Some((outcome, time)) = pass.result {
            has_changed = state.record(outcome, time, is_current, now);
        }
        let name = state.breaker.state().name();
        drop(state);
        if has_changed {
            tracing::info!(target = self.name, state = name, "the breaker of a push changed");
        }
        // Workers that find no job give their passes back, and must not wake each other by that.
        if has_changed || (is_limited && pass.is_sent) {
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records a result. Returns whether the breaker has changed.
    fn record(&mut self, outcome: Outcome, time: Duration, is_current: bool, now: Instant) -> bool {
        let unavailable = u32::from(outcome == Outcome::Unavailable);
        if outcome == (Outcome::Available { is_busy: false }) {
            (self.retry_delay, self.increased_at) = (FIRST_DELAY, None);
        }
        if !is_current {
            return false;
        }
        self.heard = now;
        let results =
            Results { delivered: 1 - unavailable, failed: unavailable, unavailable, time };
        self.since_change.record(now, results);
        match outcome {
            Outcome::Available { .. } => {
                let share = self.shares.values().sum();
                self.change(now, |breaker| breaker.record_available(share))
            }
            Outcome::Unavailable => {
                self.pressed = now;
                let recent = self.since_change.last(now, BREAKER_SECONDS);
                self.change(now, |breaker| breaker.record_failure(recent))
            }
        }
    }
}

impl Pass {
    /// Returns whether the request may be sent: the breaker has not opened meanwhile.
    pub fn is_valid(&self) -> bool {
        let state = self.gate.lock();
        state.epoch == self.epoch || state.breaker.limit().is_none()
    }

    /// Records that the request is sent.
    pub fn sent(&mut self) {
        self.is_sent = true;
    }

    /// Sets the result, and the time of the request.
    pub fn set_result(&mut self, outcome: Outcome, time: Duration) {
        self.result = Some((outcome, time));
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.leave(self, Instant::now());
    }
}

#[cfg(test)]
mod tests;
