//! Lanes: the requests of one topic on this server, which outlive changes of its push.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{
    limiter::Limiter,
    status::PushFailure,
    window::{Results, Window},
};

/// Number of failures that a lane remembers.
const SHOWN_FAILURES: usize = 10;
/// Time of nothing but failures after which a push pauses.
const MAX_FAILING_TIME: Duration = Duration::from_secs(5 * 86_400);

/// Requests of one topic on this server. Requests that began before a change of the push count too.
pub struct Lane {
    state: Mutex<State>,
    limiter: Mutex<Limiter>,
    /// Notified when a request or a transition after it has ended.
    pub freed: Notify,
}

struct State {
    /// Requests under way.
    sending: usize,
    /// Requests whose jobs are being finished, released or buried.
    settling: usize,
    window: Window,
    failures: VecDeque<PushFailure>,
    /// When the first failure since the last success ended.
    failing_since: Option<Instant>,
}

impl Lane {
    pub fn new(now: Instant) -> Self {
        let state = State {
            sending: 0,
            settling: 0,
            window: Window::new(now),
            failures: VecDeque::new(),
            failing_since: None,
        };
        Self {
            state: Mutex::new(state),
            limiter: Mutex::new(Limiter::new(now)),
            freed: Notify::new(),
        }
    }

    /// Returns how many more requests may begin if `share` may be under way. As many again may wait
    /// for the store, so that a slow store slows the requests down.
    pub fn room(&self, share: usize) -> usize {
        let state = self.lock();
        let busy = state.sending.max((state.sending + state.settling).saturating_sub(share));
        share.saturating_sub(busy)
    }

    /// Records that a request begins.
    pub fn begin(&self) {
        self.lock().sending += 1;
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

    /// Records the result of a request, and whether the endpoint accepted a job of it. Returns
    /// whether no job was accepted in the last five days.
    pub fn record(
        &self,
        results: Results,
        failure: Option<PushFailure>,
        has_accepted: bool,
        now: Instant,
    ) -> bool {
        let mut state = self.lock();
        state.window.record(now, results);
        if let Some(failure) = failure {
            state.failures.truncate(SHOWN_FAILURES - 1);
            state.failures.push_front(failure);
        }
        if has_accepted {
            state.failing_since = None;
            return false;
        }
        let since = *state.failing_since.get_or_insert(now);
        now.saturating_duration_since(since) >= MAX_FAILING_TIME
    }

    /// Restarts the five days of failures.
    pub fn restart_failing_time(&self) {
        self.lock().failing_since = None;
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
    use crate::job::UnixMillis;

    fn failure(number: u64) -> PushFailure {
        let id = number.to_string().parse().expect("an id");
        PushFailure { at: UnixMillis::new(number), id, status: None, error: String::new() }
    }

    #[test]
    fn a_slow_store_slows_the_requests_down() {
        let lane = Lane::new(Instant::now());
        (0..3).for_each(|_| lane.begin());
        assert_eq!((lane.room(4), lane.in_flight()), (1, 3));
        (0..3).for_each(|_| lane.settle());
        assert_eq!(lane.room(4), 4);
        (0..3).for_each(|_| lane.begin());
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
        let lane = Lane::new(start);
        let at = |days: u64| start + Duration::from_secs(days * 86_400);
        let results = Results::default();
        assert!(!lane.record(results, Some(failure(1)), false, at(0)));
        assert!(!lane.record(results, Some(failure(2)), false, at(4)));
        assert!(lane.record(results, Some(failure(3)), false, at(5)));
        assert!(!lane.record(results, Some(failure(3)), true, at(5)));
        assert!(!lane.record(results, Some(failure(4)), false, at(6)));
        for number in 5..20 {
            lane.record(results, Some(failure(number)), false, at(7));
        }
        let (_, failures) = lane.recent(at(7));
        assert_eq!((failures.len(), failures[0].at.get(), failures[9].at.get()), (10, 19, 10));
        lane.restart_failing_time();
        assert!(!lane.record(results, Some(failure(1)), false, at(20)));
    }
}
