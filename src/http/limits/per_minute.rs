//! Requests that were refused, counted by the address that they come from: one that goes on guessing
//! tokens is told to wait, and one that has none does not fill the log.

use std::{
    net::IpAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::keyed::Keyed;

/// So many of one address in a minute are not too many.
const MOST: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Most addresses that are counted at once, so that memory stays bounded.
const ADDRESSES: usize = 10_000;

/// How often those are looked for whose minute is over, when there are so many: it takes a while.
const SWEEP: Duration = Duration::from_secs(1);

/// How many came from each address, and since when.
pub struct PerMinute(Mutex<Keyed<IpAddr, (u32, Instant)>>);

/// How many came from an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Within this minute. Zero if they are not counted.
    number: u32,
    /// Of the last minute, how many followed the first that was too many; told with the first one of this.
    pub left_out: u32,
}

impl Count {
    /// Whether this is one too many.
    pub fn is_too_many(self) -> bool {
        self.number > MOST
    }

    /// Whether none before it was.
    pub fn is_first_too_many(self) -> bool {
        self.number == MOST + 1
    }
}

impl Default for PerMinute {
    fn default() -> Self {
        Self(Mutex::new(Keyed::new(ADDRESSES, SWEEP)))
    }
}

impl PerMinute {
    /// Counts one. A request with a right token is never counted: clients behind one proxy share its
    /// address.
    pub fn count(&self, address: IpAddr, now: Instant) -> Count {
        let mut counts = self.0.lock().expect("no thread panics while holding this lock");
        let is_recent = |since: Instant| now.saturating_duration_since(since) < MINUTE;
        let entry = counts.entry(&address, now, |(_, since)| is_recent(*since), || (0, now));
        let Some((count, since)) = entry else { return Count::default() };
        let mut left_out = 0;
        if !is_recent(*since) {
            left_out = count.saturating_sub(MOST + 1);
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
        for _ in 0..MOST {
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
    fn addresses_beyond_what_fits_are_not_counted_until_there_is_room() {
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
