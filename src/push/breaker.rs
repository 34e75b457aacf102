//! Circuit breaker: stops requests while they fail, and starts again slowly.

use super::{status::BreakerState, window::Results};

/// Failures in a row that open the breaker.
const FAILURES_IN_A_ROW: u32 = 10;
/// Minimum number of requests in ten seconds of which half must have failed to open the breaker.
const MIN_REQUESTS: u32 = 20;

/// Circuit breaker on this server.
#[derive(Debug, Default)]
pub struct Breaker {
    state: State,
    /// Failures since the last success.
    row: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Closed,
    Open,
    /// This many requests may be under way at once.
    Recovering(usize),
}

impl Breaker {
    /// Returns the state.
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open => BreakerState::Open,
            State::Recovering(_) => BreakerState::Recovering,
        }
    }

    /// Returns the maximum number of requests at once; `None` without a limit. While the breaker is
    /// open, only probes are sent.
    pub fn limit(&self) -> Option<usize> {
        match self.state {
            State::Closed => None,
            State::Open => Some(0),
            State::Recovering(limit) => Some(limit),
        }
    }

    /// Records a request that did not fail because of its host or push. Each allows one
    /// more at once, so their number doubles in the time of one; the breaker closes when it reaches
    /// `share`.
    pub fn record_available(&mut self, share: usize) {
        self.row = 0;
        self.state = match self.state {
            State::Recovering(limit) if limit + 1 < share => State::Recovering(limit + 1),
            State::Open if share > 1 => State::Recovering(1),
            State::Closed | State::Recovering(_) | State::Open => State::Closed,
        };
    }

    /// Allows all requests.
    pub fn close(&mut self) {
        (self.state, self.row) = (State::Closed, 0);
    }

    /// Allows one request if the breaker is open.
    pub fn recover(&mut self) {
        if self.state == State::Open {
            self.state = State::Recovering(1);
        }
    }

    /// Records a request that failed because of its host or push. `recent` are the results of the
    /// last ten seconds, with this one.
    pub fn record_failure(&mut self, recent: Results) {
        self.row = self.row.saturating_add(1);
        let count = recent.count();
        let has_failed_half = count >= MIN_REQUESTS && recent.unavailable * 2 >= count;
        self.state = match self.state {
            State::Closed if self.row >= FAILURES_IN_A_ROW || has_failed_half => State::Open,
            State::Recovering(limit) if limit > 1 => State::Recovering(limit / 2),
            State::Recovering(_) => State::Open,
            state => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(delivered: u32, failed: u32) -> Results {
        Results { delivered, failed, unavailable: failed, ..Results::default() }
    }

    #[test]
    fn ten_failures_in_a_row_open_it() {
        let mut breaker = Breaker::default();
        (0..9).for_each(|_| breaker.record_failure(recent(1_000, 9)));
        breaker.record_available(64);
        (0..9).for_each(|_| breaker.record_failure(recent(1_000, 9)));
        assert_eq!((breaker.state(), breaker.limit()), (BreakerState::Closed, None));
        breaker.record_failure(recent(1_000, 10));
        assert_eq!((breaker.state(), breaker.limit()), (BreakerState::Open, Some(0)));
    }

    #[test]
    fn half_of_twenty_open_it() {
        let mut breaker = Breaker::default();
        breaker.record_failure(recent(8, 10));
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.record_failure(recent(11, 10));
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.record_failure(recent(10, 10));
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn it_closes_slowly_and_opens_again_on_failures() {
        let mut breaker = Breaker::default();
        (0..10).for_each(|_| breaker.record_failure(recent(0, 1)));
        let limits = |breaker: &mut Breaker, count| {
            (0..count).for_each(|_| breaker.record_available(8));
            breaker.limit()
        };
        assert_eq!(limits(&mut breaker, 1), Some(1));
        assert_eq!(limits(&mut breaker, 4), Some(5));
        breaker.record_failure(recent(5, 11));
        assert_eq!(breaker.limit(), Some(2));
        breaker.record_failure(recent(5, 12));
        breaker.record_failure(recent(5, 13));
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(limits(&mut breaker, 7), Some(7));
        assert_eq!(limits(&mut breaker, 1), None);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}
