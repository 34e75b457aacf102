//! Refused requests per address and minute: a client that guesses tokens gets 429, and a client
//! without a token does not fill the log.

use std::{
    net::IpAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::bounded_map::BoundedMap;

/// Maximum number of refused requests per address and minute. After that, wrong tokens get 429, and
/// the log omits refusals.
const MAX_REFUSALS_PER_MINUTE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Maximum number of addresses with a count.
const MAX_ADDRESSES: usize = 10_000;

/// Minimum time between two sweeps for addresses whose minute is over.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The number of refused requests of each address, and the start of its minute.
pub struct PerMinute(Mutex<BoundedMap<IpAddr, (u32, Instant)>>);

/// Refused requests of one address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of refusals in this minute, including this one; zero if too many addresses have a
    /// count.
    number: u32,
    /// Number of refusals in the previous minute that were not logged. Set only with the first
    /// refusal of a minute; otherwise zero.
    pub left_out: u32,
}

impl Count {
    pub fn is_too_many(self) -> bool {
        self.number > MAX_REFUSALS_PER_MINUTE
    }

    pub fn is_first_too_many(self) -> bool {
        self.number == MAX_REFUSALS_PER_MINUTE + 1
    }
}

impl Default for PerMinute {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(MAX_ADDRESSES, SWEEP_INTERVAL)))
    }
}

impl PerMinute {
    /// Counts a refused request. Do not call it for requests with a valid token: clients behind one
    /// proxy share its address.
    pub fn count(&self, address: IpAddr, now: Instant) -> Count {
        let mut counts = self.0.lock().expect("no thread panics while holding this lock");
        let is_recent = |since: Instant| now.saturating_duration_since(since) < MINUTE;
        let entry = counts.entry(&address, now, |(_, since)| is_recent(*since), || (0, now));
        let Some((count, since)) = entry else { return Count::default() };
        let mut left_out = 0;
        if !is_recent(*since) {
            left_out = count.saturating_sub(MAX_REFUSALS_PER_MINUTE + 1);
            (*count, *since) = (0, now);
        }
        *count = count.saturating_add(1);
        Count { number: *count, left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_refused_a_hundred_times_a_minute() {
        let (refused, begin) = (PerMinute::default(), Instant::now());
        let [one, other] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        for _ in 0..MAX_REFUSALS_PER_MINUTE {
            assert!(!refused.count(one, begin).is_too_many());
        }
        assert!(refused.count(one, begin + MINUTE / 2).is_first_too_many());
        for _ in 0..7 {
            let count = refused.count(one, begin + MINUTE / 2);
            assert!(count.is_too_many() && !count.is_first_too_many());
        }
        assert!(!refused.count(other, begin + MINUTE / 2).is_too_many());
        assert_eq!(refused.count(one, begin + MINUTE), Count { number: 1, left_out: 7 });
        assert_eq!(refused.count(one, begin + MINUTE), Count { number: 2, left_out: 0 });
    }

    #[test]
    fn addresses_beyond_the_cap_are_not_counted() {
        let (refused, begin) = (PerMinute::default(), Instant::now());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        let count = u32::try_from(MAX_ADDRESSES).expect("a small number");
        for n in 0..count + 5 {
            assert!(!refused.count(address(n), begin).is_too_many());
        }
        assert_eq!(refused.0.lock().expect("the lock").len(), MAX_ADDRESSES);
        assert_eq!(refused.count(address(count), begin + MINUTE).number, 1);
        assert_eq!(refused.0.lock().expect("the lock").len(), 1);
    }
}
