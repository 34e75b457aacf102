//! Instants at equal distances, in milliseconds: the anchor plus any multiple of the interval.

/// An interval and its anchor.
#[derive(Debug)]
pub struct Every {
    /// At least 1.
    pub interval: u64,
    pub anchor: u64,
}

impl Every {
    /// Returns the first instant after `after`, unless it is beyond all numbers.
    pub fn next(&self, after: u64) -> Option<u64> {
        match after.checked_sub(self.anchor) {
            Some(past) => after.checked_add(self.interval - past % self.interval),
            None => {
                let ahead = (self.anchor - after) % self.interval;
                after.checked_add(if ahead == 0 { self.interval } else { ahead })
            }
        }
    }

    /// Returns the last instant at or before `to`, unless it is before the epoch.
    pub fn last(&self, to: u64) -> Option<u64> {
        match to.checked_sub(self.anchor) {
            Some(past) => Some(to - past % self.interval),
            None => {
                let ahead = (self.anchor - to) % self.interval;
                to.checked_sub(if ahead == 0 { 0 } else { self.interval - ahead })
            }
        }
    }
}
