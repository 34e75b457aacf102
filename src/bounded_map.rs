//! A bounded map of values per caller, address or topic.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// Map with a bounded number of entries. When it is full, a sweep removes the entries that are no
/// longer needed.
pub struct BoundedMap<K, V> {
    entries: HashMap<K, V>,
    capacity: usize,
    /// Minimum time between two sweeps, since each visits all entries.
    sweep_interval: Duration,
    swept: Option<Instant>,
}

impl<K: Eq + Hash + Clone, V> BoundedMap<K, V> {
    pub fn new(capacity: usize, sweep_interval: Duration) -> Self {
        Self { entries: HashMap::new(), capacity, sweep_interval, swept: None }
    }

    /// Returns the entry of a key, and creates it with `new` if there is none. Returns `None` if
    /// the key is new and the map is full, unless a sweep finds room. Sweeps are at least
    /// `sweep_interval` apart.
    pub fn entry(
        &mut self,
        key: &K,
        now: Instant,
        is_needed: impl Fn(&V) -> bool,
        new: impl FnOnce() -> V,
    ) -> Option<&mut V> {
        if !self.entries.contains_key(key) && self.entries.len() >= self.capacity {
            let age = |swept: Instant| now.saturating_duration_since(swept);
            if self.swept.is_none_or(|swept| age(swept) >= self.sweep_interval) {
                self.swept = Some(now);
                self.entries.retain(|_, value| is_needed(value));
            }
            if self.entries.len() >= self.capacity {
                return None;
            }
        }
        Some(self.entries.entry(key.clone()).or_insert_with(new))
    }

    /// Returns the entry of a key. Creates it if a sweep has removed it since the caller last used
    /// it, even if the map then exceeds its bound.
    pub fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        self.entries.entry(key.clone()).or_default()
    }
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_sweeps_rarely_and_refuses_only_new_keys() {
        let begin = Instant::now();
        let second = |n| begin + Duration::from_secs(n);
        let mut map = BoundedMap::new(2, Duration::from_secs(10));
        let mut put = |key: u8, at, needed: u8| {
            map.entry(&key, at, |value| *value == needed, || key).copied()
        };
        assert_eq!((put(1, begin, 0), put(2, begin, 0)), (Some(1), Some(2)));
        assert_eq!(put(3, begin, 1), Some(3), "2 was not needed");
        assert_eq!(put(4, second(9), 0), None, "no sweep so soon");
        assert_eq!(put(1, second(9), 0), Some(1), "a known key needs no room");
        assert_eq!(put(4, second(10), 3), Some(4));
        assert_eq!(map.len(), 2);
    }
}
