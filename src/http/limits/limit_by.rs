//! Concurrency limit per key.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
};

/// Concurrency limit per key.
#[derive(Clone)]
pub struct KeyedLimit<K>(Arc<Inner<K>>);

struct Inner<K> {
    limit: usize,
    taken: Mutex<HashMap<K, usize>>,
}

/// A permit of one key, returned on drop.
pub struct KeyPermit<K: Eq + Hash> {
    limit: KeyedLimit<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> KeyedLimit<K> {
    /// Allows at most `limit` permits per key.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, taken: Mutex::default() }))
    }

    /// Takes a permit for this key, or returns `None` if the key has reached the limit.
    pub fn take(&self, key: K) -> Option<KeyPermit<K>> {
        let mut taken = self.0.taken.lock().expect("no thread panics while holding this lock");
        let count = taken.entry(key.clone()).or_default();
        if *count >= self.0.limit {
            return None;
        }
        *count += 1;
        Some(KeyPermit { limit: self.clone(), key })
    }
}

impl<K: Eq + Hash> Drop for KeyPermit<K> {
    fn drop(&mut self) {
        let mut taken =
            self.limit.0.taken.lock().expect("no thread panics while holding this lock");
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// Returns the part of an address by which clients are counted. For IPv4 this is the whole address.
/// For IPv6 it is the first 64 bits, since one client usually has all addresses that begin with
/// them.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_limit_and_idle_keys_are_dropped() {
        let all = KeyedLimit::new(2);
        let (one, _two) = (all.take("a").expect("one"), all.take("a").expect("two"));
        assert!(all.take("a").is_none());
        let other = all.take("b").expect("its own");
        drop((one, other));
        all.take("a").expect("one was returned");
        assert_eq!(all.0.taken.lock().expect("no panic").len(), 1);
    }

    #[test]
    fn the_addresses_of_a_client_are_counted_together() {
        for (address, one) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(network(address).to_string(), one);
        }
    }
}
