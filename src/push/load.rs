//! Memory of the bodies of pushed jobs, from their pop until their request has ended. It is a part
//! of `limits.memory_bytes`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::budget::Budget;

/// Memory of the bodies of all pushes of this server.
#[derive(Debug)]
pub struct Loads {
    budget: Budget,
    used: AtomicUsize,
}

/// Memory of the bodies of one push.
#[derive(Debug)]
pub struct LaneLoads {
    all: Arc<Loads>,
    used: AtomicUsize,
}

/// Memory of the bodies of one or more requests; given back when it is dropped.
#[derive(Debug)]
pub struct Load {
    lane: Arc<LaneLoads>,
    bytes: usize,
}

impl Loads {
    pub fn new(budget: Budget) -> Self {
        Self { budget, used: AtomicUsize::new(0) }
    }

    /// Returns the size of the bodies of one pop at which it takes no more jobs, so that a push can
    /// have several requests under way.
    pub fn max_pop(&self) -> usize {
        self.budget.limit() / 32
    }
}

impl LaneLoads {
    pub fn new(all: &Arc<Loads>) -> Self {
        Self { all: Arc::clone(all), used: AtomicUsize::new(0) }
    }

    /// Takes memory for the bodies of a number of jobs. The last quarter is left to requests of
    /// clients, and a push takes at most an eighth, so that a slow endpoint leaves room for other
    /// pushes. For one job there is always room if nothing is under way.
    pub fn take(self: &Arc<Self>, bytes: usize, jobs: usize) -> Option<Load> {
        let Loads { budget, used } = &*self.all;
        let limit = budget.limit();
        let is_first = |used: &AtomicUsize| jobs <= 1 && used.load(Ordering::Relaxed) == 0;
        let fits = self.used.load(Ordering::Relaxed) + bytes <= limit / 8;
        if !fits && !is_first(&self.used) {
            return None;
        }
        if !budget.take(bytes, limit / 4 * 3) {
            if !is_first(used) {
                return None;
            }
            budget.take_beyond(bytes);
        }
        used.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Some(Load { lane: Arc::clone(self), bytes })
    }
}

impl Load {
    /// Splits memory of `bytes` bytes off.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { lane: Arc::clone(&self.lane), bytes }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let LaneLoads { all, used } = &*self.lane;
        used.fetch_sub(self.bytes, Ordering::Relaxed);
        all.used.fetch_sub(self.bytes, Ordering::Relaxed);
        all.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_and_all_pushes_leave_room() {
        let budget = Budget::new(800);
        let all = Arc::new(Loads::new(budget.clone()));
        let lanes: Vec<_> = (0..9).map(|_| Arc::new(LaneLoads::new(&all))).collect();
        assert!(lanes[0].take(101, 2).is_none(), "some of the jobs can be given back");
        let first = lanes[0].take(60, 1).expect("room");
        assert!(lanes[0].take(41, 1).is_none(), "a push has at most an eighth");
        let more = lanes[0].take(40, 1).expect("room");
        let others: Vec<Load> = lanes.iter().filter_map(|lane| lane.take(100, 1)).collect();
        assert_eq!((others.len(), budget.used()), (5, 600), "pushes have at most three quarters");
        drop(others);
        assert_eq!(budget.used(), 100);
        drop((first, more));
        assert_eq!(budget.used(), 0);
        budget.take_beyond(800);
        let only = lanes[0].take(5_000, 1).expect("one request is always sent");
        assert!(lanes[1].take(1, 1).is_none());
        drop(only);
        assert_eq!(budget.used(), 800);
    }

    #[test]
    fn a_load_is_given_back_in_parts() {
        let budget = Budget::new(800);
        let lane = Arc::new(LaneLoads::new(&Arc::new(Loads::new(budget.clone()))));
        let mut whole = lane.take(90, 1).expect("room");
        let part = whole.split(50);
        drop(whole);
        assert_eq!(budget.used(), 50);
        drop(part);
        assert_eq!(budget.used(), 0);
    }
}
