//! Wrong tokens by the address that they come from: one that goes on guessing is told to wait.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

/// So many of one address in a minute are told that they are wrong.
const MOST: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Most addresses that are counted at once, so that memory stays bounded.
const ADDRESSES: usize = 10_000;

/// How often those are looked for whose minute is over, when there are so many: it takes a while.
const SWEEP: Duration = Duration::from_secs(1);

/// How many came from each address, and since when.
#[derive(Default)]
pub struct WrongTokens(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    of: HashMap<IpAddr, (u32, Instant)>,
    /// When it was last looked for those that are over.
    swept: Option<Instant>,
}

impl WrongTokens {
    /// Counts one; whether that is too many. A right token is never counted: clients behind one proxy
    /// share its address.
    pub fn is_one_too_many(&self, address: IpAddr, now: Instant) -> bool {
        let mut counts = self.0.lock().expect("no thread panics while holding this lock");
        let Counts { of: counts, swept } = &mut *counts;
        let age = |since: Instant| now.saturating_duration_since(since);
        let is_recent = |since: Instant| age(since) < MINUTE;
        if counts.len() >= ADDRESSES && !counts.contains_key(&address) {
            if swept.is_none_or(|at| age(at) >= SWEEP) {
                *swept = Some(now);
                counts.retain(|_, (_, since)| is_recent(*since));
            }
            if counts.len() >= ADDRESSES {
                return false;
            }
        }
        let (count, since) = counts.entry(address).or_insert((0, now));
        if !is_recent(*since) {
            (*count, *since) = (0, now);
        }
        *count = count.saturating_add(1);
        *count > MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_wrong_a_hundred_times_a_minute() {
        let (wrong, begin) = (WrongTokens::default(), Instant::now());
        let [one, other] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        for _ in 0..MOST {
            assert!(!wrong.is_one_too_many(one, begin));
        }
        assert!(wrong.is_one_too_many(one, begin + MINUTE / 2));
        assert!(!wrong.is_one_too_many(other, begin + MINUTE / 2));
        assert!(!wrong.is_one_too_many(one, begin + MINUTE));
    }

    #[test]
    fn addresses_beyond_what_fits_are_not_counted_until_there_is_room() {
        let (wrong, begin) = (WrongTokens::default(), Instant::now());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        let count = u32::try_from(ADDRESSES).expect("a small number");
        for n in 0..count + 5 {
            assert!(!wrong.is_one_too_many(address(n), begin));
        }
        assert_eq!(wrong.0.lock().expect("the lock").of.len(), ADDRESSES);
        assert!(!wrong.is_one_too_many(address(count), begin + MINUTE));
        assert_eq!(wrong.0.lock().expect("the lock").of.len(), 1);
    }
}
