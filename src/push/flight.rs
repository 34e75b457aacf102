//! A place for a request, counted by its lane, its target and their gates: first reserved, then
//! under way, then until its jobs are settled.

use std::{sync::Arc, time::Instant};

use super::{
    gate::{Gate, Pass},
    lane::Lane,
    share::Place,
    target::{Ended, Target},
};

/// A place for a request. It is taken before the jobs of the request are popped, so that all that
/// is under way is bounded. Its drop ends the counts, also if its task panics.
pub struct Flight {
    lane: Arc<Lane>,
    target: Arc<Target>,
    /// `None` once the request has ended.
    passes: Option<Passes>,
    is_sent: bool,
}

/// Passes that a request holds until it ends.
struct Passes {
    host: Pass,
    push: Pass,
    /// Whether the target counts it among the requests of pushes that recover.
    is_recovery: bool,
}

impl Flight {
    /// Takes a place, if this server's `share` of the push's concurrency, both gates and the
    /// recovery of the target allow it. `second` is the time in Unix seconds.
    pub fn reserve(
        lane: &Arc<Lane>,
        target: &Arc<Target>,
        gate: &Arc<Gate>,
        (place, share): (Place, usize),
        second: u64,
    ) -> Option<Self> {
        let now = Instant::now();
        if lane.room(share) == 0 {
            return None;
        }
        let host = target.host.enter(place, second, now)?;
        let push = gate.enter(place, second, now)?;
        let is_recovery = push.is_limited;
        if is_recovery && !target.recover(now) {
            return None;
        }
        lane.reserve();
        let passes = Some(Passes { host, push, is_recovery });
        Some(Self { lane: Arc::clone(lane), target: Arc::clone(target), passes, is_sent: false })
    }

    /// Returns whether a breaker limits the number of requests.
    pub fn is_limited(&self) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.host.is_limited || passes.push.is_limited)
    }

    /// Returns whether the request may be sent: no breaker has opened since the reservation.
    pub fn is_valid(&self) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.host.is_valid() && passes.push.is_valid())
    }

    /// Records that the request is sent.
    pub fn sent(&mut self) {
        self.is_sent = true;
        if let Some(passes) = &mut self.passes {
            passes.host.sent();
            passes.push.sent();
        }
        self.lane.send();
        self.target.begin();
    }

    /// Records the end of the request; its jobs are settled from then on.
    pub fn ended(&mut self, ended: Ended) {
        self.end(Some(ended));
    }

    fn end(&mut self, ended: Option<Ended>) {
        let Some(mut passes) = self.passes.take() else { return };
        let outcome = ended.and_then(Ended::of_push);
        if passes.is_recovery {
            self.target.end_recovery(outcome);
        }
        if let Some(ended) = ended {
            passes.host.set_result(ended.of_host(), ended.time);
        }
        if let (Some(ended), Some(outcome)) = (ended, outcome) {
            passes.push.set_result(outcome, ended.time);
        }
        if self.is_sent {
            self.target.end(ended, Instant::now());
            self.lane.settle();
        } else {
            self.lane.give_back();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.end(None);
        if self.is_sent {
            self.lane.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use guarded_client::Client;

    use super::*;
    use crate::{
        budget::Budget,
        push::{load::Loads, status::BreakerState, target::Health},
    };

    const PLACE: Place = Place { index: 0, servers: 1 };

    struct Push {
        lane: Arc<Lane>,
        target: Arc<Target>,
        gate: Arc<Gate>,
    }

    impl Push {
        fn new(target: &Arc<Target>) -> Self {
            let client = Client::new(guarded_client::Options::default()).expect("a client");
            let loads = Arc::new(Loads::new(Budget::new(1 << 20)));
            let lane = Arc::new(Lane::new(&client, &loads, Instant::now()));
            let gate = target.gate_of_push("a".to_owned(), Instant::now());
            Self { lane, target: Arc::clone(target), gate }
        }

        fn reserve(&self, share: usize, second: u64) -> Option<Flight> {
            Flight::reserve(&self.lane, &self.target, &self.gate, (PLACE, share), second)
        }

        fn fail(&self, health: Health) {
            for _ in 0..10 {
                let mut flight = self.reserve(1, 0).expect("a place");
                flight.sent();
                let time = Duration::ZERO;
                flight.ended(Ended { is_delivered: false, health, is_busy: true, time });
            }
        }
    }

    fn target() -> Arc<Target> {
        Arc::new(Target::new("http://a:80".to_owned(), Instant::now()))
    }

    #[test]
    fn probes_count_in_the_concurrency() {
        let push = Push::new(&target());
        push.fail(Health::Busy);
        assert!(push.gate.is_open());
        let probe = |second| {
            let mut flight = push.reserve(3, second)?;
            flight.sent();
            Some(flight)
        };
        // Nothing answers; each probe keeps its place.
        let probes: Vec<Flight> = (1..20).filter_map(probe).collect();
        assert!((1..=3).contains(&probes.len()) && push.lane.in_flight() == probes.len());
        assert_eq!(push.lane.room(3), 3 - probes.len());
        drop(probes);
        assert_eq!((push.lane.room(3), push.target.in_flight()), (3, 0));
    }

    #[test]
    fn places_are_taken_before_the_pop() {
        let push = Push::new(&target());
        let flights: Vec<Flight> = (0..9).filter_map(|_| push.reserve(4, 0)).collect();
        assert_eq!((flights.len(), push.lane.in_flight()), (4, 0));
        drop(flights);
        assert_eq!(push.lane.room(4), 4);
    }

    #[test]
    fn answers_close_one_push_and_lost_hosts_all() {
        let target = target();
        let pushes = [Push::new(&target), Push::new(&target)];
        pushes[0].fail(Health::Busy);
        assert_eq!(
            (pushes[0].gate.breaker(), target.host.breaker()),
            (BreakerState::Open, BreakerState::Closed)
        );
        assert!((0..50).all(|_| pushes[1].reserve(1, 0).is_some()));
        pushes[1].fail(Health::Unreachable);
        assert_eq!(
            (pushes[1].gate.breaker(), target.host.breaker()),
            (BreakerState::Closed, BreakerState::Open)
        );
        assert!(pushes[1].reserve(9, 1).is_some(), "a probe");
        let _probe = pushes[1].reserve(9, 1).expect("the one before was given back");
        assert!(pushes[1].reserve(9, 1).is_none() && pushes[0].reserve(9, 1).is_none());
    }
}
