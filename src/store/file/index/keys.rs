//! A sorted set of jobs, in chunks. It takes half the memory of a `BTreeSet`, which keeps half of
//! each node free if jobs come in order. The jobs read at a start are sorted once, all together.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
};

use super::Slot;
use crate::job::UnixMillis;

/// Maximum number of keys in a chunk.
const CHUNK: usize = 128;
/// Number of keys by which a chunk grows.
const GROWTH: usize = 16;

/// Key of a job in a sorted set: by time, then by order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexKey {
    pub at: UnixMillis,
    /// Low half of the serial number: enough to keep jobs of one millisecond in order.
    pub order: u32,
    pub slot: Slot,
}

impl IndexKey {
    /// Returns the lowest possible key of a time.
    pub const fn first(at: UnixMillis) -> Self {
        Self { at, order: 0, slot: 0 }
    }

    /// Returns, as text, the part of the key that distinguishes jobs of the same time.
    pub fn tie(&self) -> String {
        format!("{}.{}", self.order, self.slot)
    }

    pub fn parse(at: UnixMillis, tie: &str) -> Option<Self> {
        let (order, slot) = tie.split_once('.')?;
        Some(Self { at, order: order.parse().ok()?, slot: slot.parse().ok()? })
    }
}

/// Lower bound of all keys.
const SMALLEST: IndexKey = IndexKey::first(UnixMillis::new(0));

#[derive(Debug, Default)]
pub struct Keys {
    /// Sorted chunks by their lower bounds; none is empty.
    chunks: BTreeMap<IndexKey, Vec<IndexKey>>,
    len: usize,
}

impl Keys {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn first(&self) -> Option<IndexKey> {
        self.chunks.first_key_value().map(|(_, chunk)| chunk[0])
    }

    /// Adds a key, which must not be in the set.
    pub fn insert(&mut self, key: IndexKey) {
        self.len += 1;
        let Some((_, chunk)) = self.chunks.range_mut(..=key).next_back() else {
            self.chunks.insert(SMALLEST, vec![key]);
            return;
        };
        let place = chunk.partition_point(|other| *other < key);
        if chunk.len() < CHUNK {
            return insert(chunk, place, key);
        }
        // Keys that come in order leave full chunks behind.
        let half = if place == CHUNK { CHUNK } else { CHUNK / 2 };
        let mut upper = chunk.split_off(half);
        chunk.shrink_to_fit();
        match place.checked_sub(half) {
            Some(place) => insert(&mut upper, place, key),
            None => insert(chunk, place, key),
        }
        self.chunks.insert(upper[0], upper);
    }

    /// Removes a key, if it is in the set.
    pub fn remove(&mut self, key: IndexKey) {
        let Some((&bound, chunk)) = self.chunks.range_mut(..=key).next_back() else { return };
        let Ok(place) = chunk.binary_search(&key) else { return };
        chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(&bound);
        } else if chunk.len() + 2 * GROWTH <= chunk.capacity() {
            chunk.shrink_to(chunk.len() + GROWTH);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = IndexKey> {
        self.chunks.values().flatten().copied()
    }

    /// Returns the keys from `from` on, in order.
    pub fn range_from(&self, from: Bound<IndexKey>) -> impl Iterator<Item = IndexKey> {
        let lowest = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => SMALLEST,
        };
        let chunk = self.chunks.range(..=lowest).next_back();
        let chunks = self.chunks.range(chunk.map_or(SMALLEST, |(bound, _)| *bound)..);
        let keys = chunks.flat_map(|(_, chunk)| chunk).copied();
        keys.skip_while(move |key| !(from, Bound::Unbounded).contains(key))
    }
}

impl From<Vec<IndexKey>> for Keys {
    fn from(mut keys: Vec<IndexKey>) -> Self {
        keys.sort_unstable();
        let chunks = keys.chunks(CHUNK).map(|chunk| (chunk[0], chunk.to_vec()));
        Self { len: keys.len(), chunks: chunks.collect() }
    }
}

fn insert(chunk: &mut Vec<IndexKey>, place: usize, key: IndexKey) {
    if chunk.len() == chunk.capacity() {
        chunk.reserve_exact(GROWTH);
    }
    chunk.insert(place, key);
}

#[cfg(test)]
mod tests;
