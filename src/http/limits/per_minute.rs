//! Refused requests per address and minute: a client that guesses tokens gets 429, and a client
//! without a token does not fill the log.

use std::{
    net::IpAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::keyed::Keyed;

/// Refused requests per address and minute before the next is one too many.
const REFUSALS_PER_MINUTE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Maximum number of addresses counted at once.
const ADDRESSES: usize = 10_000;

/// Shortest time between two searches for addresses whose minute is over; each visits all entries.
const SWEEP: Duration = Duration::from_secs(1);

/// Refused requests of each address, and the begin of its minute.
pub struct PerMinute(Mutex<Keyed<IpAddr, (u32, Instant)>>);

/// Refused requests of one address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// In this minute; zero if there are too many addresses to count this one.
    number: u32,
    /// Refusals of the last minute that were not logged; set on the first of a new minute.
    pub left_out: u32,
}

impl Count {
    pub fn is_too_many(self) -> bool {
        self.number > REFUSALS_PER_MINUTE
    }

    pub fn is_first_too_many(self) -> bool {
        self.number == REFUSALS_PER_MINUTE + 1
    }
}

impl Default for PerMinute {
    fn default() -> Self {
        Self(Mutex::new(Keyed::new(ADDRESSES, SWEEP)))
    }
}

impl PerMinute {
    /// Counts a refused request. Valid tokens are never counted: clients behind one proxy share its
    /// address.
    pub fn count(&self, address: IpAddr, now: Instant) -> Count {
        let mut counts = self.0.lock().expect("no thread panics while holding this lock");
        let is_recent = |since: Instant| now.saturating_duration_since(since) < MINUTE;
        let entry = counts.entry(&address, now, |(_, since)| is_recent(*since), || (0, now));
        let Some((count, since)) = entry else { return Count::default() };
        let mut left_out = 0;
        if !is_recent(*since) {
            left_out = count.saturating_sub(REFUSALS_PER_MINUTE + 1);
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
        for _ in 0..REFUSALS_PER_MINUTE {
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
        let count = u32::try_from(ADDRESSES).expect("a small number");
        for n in 0..count + 5 {
            assert!(!refused.count(address(n), begin).is_too_many());
        }
        assert_eq!(refused.0.lock().expect("the lock").len(), ADDRESSES);
        assert_eq!(refused.count(address(count), begin + MINUTE).number, 1);
        assert_eq!(refused.0.lock().expect("the lock").len(), 1);
    }
}
