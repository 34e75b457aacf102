//! A request under way, counted by its lane and its target until its jobs are settled.

use std::{sync::Arc, time::Instant};

use super::{
    lane::Lane,
    target::{Ended, Target},
};

/// A request under way. Its drop ends the counts, also if its task panics.
pub struct Flight {
    lane: Arc<Lane>,
    target: Arc<Target>,
    /// State of the target at the begin.
    epoch: u64,
    is_sending: bool,
}

impl Flight {
    /// Counts a request. `share` is this server's share of the push's concurrency.
    pub fn begin(lane: &Arc<Lane>, target: &Arc<Target>, share: usize) -> Self {
        lane.begin();
        let epoch = target.begin(share);
        Self { lane: Arc::clone(lane), target: Arc::clone(target), epoch, is_sending: true }
    }

    /// Records the end of the request; its jobs are settled from then on.
    pub fn ended(&mut self, ended: Ended) {
        self.is_sending = false;
        self.target.end(self.epoch, Some(ended), Instant::now());
        self.lane.settle();
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.is_sending {
            self.target.end(self.epoch, None, Instant::now());
            self.lane.settle();
        }
        self.lane.end();
    }
}
