//! Lanes: the requests of one topic on this server, which outlive changes of its push.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use guarded_client::Client;
use tokio::sync::Notify;

use super::{
    gate::Gate,
    limiter::Limiter,
    load::{LaneLoads, Loads},
    status::PushFailure,
    window::{Results, Window},
};

/// Number of failures that a lane remembers.
const SHOWN_FAILURES: usize = 10;
/// Time of nothing but failures after which a push pauses.
pub const MAX_FAILING_TIME: Duration = Duration::from_secs(5 * 86_400);
/// Minimum number of these failures: a push that is rarely used does not pause after two.
const MIN_FAILURES: u32 = 50;
/// Time between two notes of an accepted job in the setting.
pub const NOTE_INTERVAL: Duration = Duration::from_secs(86_400);

/// Requests of one topic on this server. Requests that began before a change of the push count too.
pub struct Lane {
    state: Mutex<State>,
    limiter: Mutex<Limiter>,
    /// Memory of the bodies of its requests.
    pub loads: Arc<LaneLoads>,
    /// Whether it waits for memory.
    is_waiting: AtomicBool,
    /// The HTTP client, with places of its own for look-ups.
    pub client: Client,
    /// Gate of the current setting of the push.
    gate: Mutex<Option<Arc<Gate>>>,
    /// Notified when a request or a transition after it has ended.
    pub freed: Notify,
}

struct State {
    /// Requests for which jobs are being popped.
    reserved: usize,
    /// Requests under way.
    sending: usize,
    /// Requests whose jobs are being finished, released or buried.
    settling: usize,
    window: Window,
    failures: VecDeque<PushFailure>,
    /// When the first failure since the last success ended, and the number of failures.
    failing: Option<(Instant, u32)>,
    /// When an accepted job was last noted in the setting.
    noted: Option<Instant>,
}

/// Change of the setting that the results of a push require.
#[derive(Debug, PartialEq)]
pub enum Due {
    Nothing,
    /// Noting in the setting that a job was accepted, for other servers.
    Note,
    /// A pause, unless another server had a job accepted.
    Pause,
}

impl Lane {
    pub fn new(client: &Client, loads: &Arc<Loads>, now: Instant) -> Self {
        let state = State {
            reserved: 0,
            sending: 0,
            settling: 0,
            window: Window::new(now),
            failures: VecDeque::new(),
            failing: None,
            noted: None,
        };
        Self {
            state: Mutex::new(state),
            limiter: Mutex::new(Limiter::new(now)),
            loads: Arc::new(LaneLoads::new(loads)),
            is_waiting: AtomicBool::new(false),
            client: client.for_user(),
            gate: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// Returns how many more requests may begin if `share` may be under way. As many again may wait
    /// for the store, so that a slow store slows the requests down.
    pub fn room(&self, share: usize) -> usize {
        let state = self.lock();
        let begun = state.reserved + state.sending;
        share.saturating_sub(begun.max((begun + state.settling).saturating_sub(share)))
    }

    /// Returns whether more requests than `share` have begun.
    pub fn exceeds(&self, share: usize) -> bool {
        let state = self.lock();
        state.reserved + state.sending > share
    }

    /// Records that jobs are popped for a request.
    pub fn reserve(&self) {
        self.lock().reserved += 1;
    }

    /// Records that a request is not sent, since there is no job for it.
    pub fn give_back(&self) {
        let mut state = self.lock();
        state.reserved = state.reserved.saturating_sub(1);
    }

    /// Records that a request is sent.
    pub fn send(&self) {
        let mut state = self.lock();
        state.reserved = state.reserved.saturating_sub(1);
        state.sending += 1;
    }

    /// Records that a request has ended and its jobs are being settled.
    pub fn settle(&self) {
        let mut state = self.lock();
        state.sending = state.sending.saturating_sub(1);
        state.settling += 1;
        drop(state);
        self.freed.notify_one();
    }

    /// Records that the jobs of a request are settled.
    pub fn end(&self) {
        let mut state = self.lock();
        state.settling = state.settling.saturating_sub(1);
        drop(state);
        self.freed.notify_one();
    }

    /// Records the result of a request, and whether the endpoint accepted a job of it.
    pub fn record(
        &self,
        results: Results,
        failure: Option<PushFailure>,
        has_accepted: bool,
        now: Instant,
    ) -> Due {
        let mut state = self.lock();
        state.window.record(now, results);
        if let Some(failure) = failure {
            state.failures.truncate(SHOWN_FAILURES - 1);
            state.failures.push_front(failure);
        }
        if has_accepted {
            state.failing = None;
            let is_recent = |at| now.saturating_duration_since(at) < NOTE_INTERVAL;
            if state.noted.is_some_and(is_recent) {
                return Due::Nothing;
            }
            state.noted = Some(now);
            return Due::Note;
        }
        let (since, failures) = state.failing.get_or_insert((now, 0));
        *failures = failures.saturating_add(1);
        let is_long = now.saturating_duration_since(*since) >= MAX_FAILING_TIME;
        if is_long && *failures >= MIN_FAILURES { Due::Pause } else { Due::Nothing }
    }

    /// Restarts the five days of failures.
    pub fn restart_failing_time(&self) {
        self.lock().failing = None;
    }

    /// Returns whether requests are under way or their jobs are being settled.
    pub fn is_busy(&self) -> bool {
        let state = self.lock();
        state.sending + state.settling > 0
    }

    /// Returns the limiter of the rate.
    pub fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether the push waits for memory.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Returns whether the push waits for memory.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Sets the gate of the current setting of the push.
    pub fn set_gate(&self, gate: &Arc<Gate>) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(gate));
    }

    /// Returns whether the push fails and is only probed.
    pub fn is_open(&self) -> bool {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        gate.is_some_and(|gate| gate.is_open())
    }

    /// Returns the requests under way.
    pub fn in_flight(&self) -> usize {
        self.lock().sending
    }

    /// Returns delivered and failed requests a second, and the last failures, latest first.
    pub fn recent(&self, now: Instant) -> ((f64, f64), Vec<PushFailure>) {
        let state = self.lock();
        (state.window.rates(now), state.failures.iter().cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::job::UnixMillis;

    fn lane(now: Instant) -> Lane {
        let client = Client::new(guarded_client::Options::default()).expect("a client");
        Lane::new(&client, &Arc::new(Loads::new(Budget::new(1 << 20))), now)
    }

    fn failure(number: u64) -> PushFailure {
        let id = number.to_string().parse().expect("an id");
        PushFailure { at: UnixMillis::new(number), id, status: None, error: String::new() }
    }

    #[test]
    fn a_slow_store_slows_the_requests_down() {
        let lane = lane(Instant::now());
        let begin = || (0..3).for_each(|_| lane.reserve());
        begin();
        assert_eq!((lane.room(4), lane.in_flight()), (1, 0));
        (0..3).for_each(|_| lane.send());
        assert_eq!((lane.room(4), lane.in_flight()), (1, 3));
        (0..3).for_each(|_| lane.settle());
        assert_eq!(lane.room(4), 4);
        begin();
        lane.give_back();
        lane.reserve();
        (0..3).for_each(|_| lane.send());
        assert_eq!(lane.room(4), 1);
        lane.settle();
        assert_eq!(lane.room(4), 2, "six are under way or being settled, of at most eight");
        lane.end();
        assert_eq!(lane.room(4), 2);
        assert_eq!(lane.room(1), 0);
    }

    #[test]
    fn five_days_of_failures_are_noticed() {
        let start = Instant::now();
        let lane = lane(start);
        let at = |days: u64| start + Duration::from_secs(days * 86_400);
        let results = Results::default();
        let record = |number, is_accepted: bool, days| {
            let failure = (!is_accepted).then(|| failure(number));
            lane.record(results, failure, is_accepted, at(days))
        };
        assert_eq!((record(0, true, 0), record(0, true, 0)), (Due::Note, Due::Nothing));
        assert_eq!((record(1, false, 0), record(2, false, 6)), (Due::Nothing, Due::Nothing));
        assert_eq!(record(0, true, 6), Due::Note, "a day after the one before");
        for number in 0..50 {
            assert_eq!(record(number, false, 7), Due::Nothing);
        }
        assert_eq!((record(50, false, 11), record(51, false, 12)), (Due::Nothing, Due::Pause));
        let (_, failures) = lane.recent(at(12));
        assert_eq!((failures.len(), failures[0].at.get(), failures[9].at.get()), (10, 51, 42));
        lane.restart_failing_time();
        assert_eq!(record(52, false, 20), Due::Nothing);
    }
}
