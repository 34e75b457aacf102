//! A sorted set of jobs, in chunks. It takes half the memory of a `BTreeSet`, whose nodes stay half
//! empty if jobs come in order. At a start, all jobs are sorted together, once.

use std::{
    collections::BTreeMap,
    iter,
    ops::{Bound, RangeBounds},
};

use super::Slot;
use crate::{
    job::{Priority, State, UnixMillis},
    store::JobPosition,
};

/// Maximum number of keys in a chunk.
const CHUNK: usize = 128;
/// Number of keys by which a chunk grows.
const GROWTH: usize = 16;

/// Key of a job in a sorted set: by rank, then by order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexKey {
    rank: Rank,
    /// Low half of the serial number, which suffices to order jobs of the same millisecond.
    order: u32,
    pub slot: Slot,
}

/// Place of a job in the order of a set: its time. For ready jobs, the upper four bits are 10 less
/// the priority, so that higher priorities come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u64);

/// Number of bits of the time in a rank; no time needs more than 48.
const TIME_BITS: u32 = 60;

impl Rank {
    pub fn new(state: State, priority: Priority, at: UnixMillis) -> Self {
        let class = if state == State::Ready { 10 - u64::from(priority.get()) } else { 0 };
        Self(class << TIME_BITS | at.get().min((1 << TIME_BITS) - 1))
    }

    /// Returns the first rank after all jobs of this state and priority.
    pub fn end(state: State, priority: Priority) -> Self {
        Self(((Self::new(state, priority, UnixMillis::new(0)).0 >> TIME_BITS) + 1) << TIME_BITS)
    }

    fn at(self) -> UnixMillis {
        UnixMillis::new(self.0 & ((1 << TIME_BITS) - 1))
    }

    /// Returns the priority of a ready job; the standard one for other states.
    fn priority(self) -> Priority {
        let class = u8::try_from(self.0 >> TIME_BITS).unwrap_or_default();
        10_u8.checked_sub(class).and_then(Priority::new).unwrap_or_default()
    }
}

impl IndexKey {
    pub fn new(rank: Rank, order: u32, slot: Slot) -> Self {
        Self { rank, order, slot }
    }

    /// Returns the lowest possible key of a rank.
    pub const fn first(rank: Rank) -> Self {
        Self { rank, order: 0, slot: 0 }
    }

    pub fn rank(&self) -> Rank {
        self.rank
    }

    pub fn at(&self) -> UnixMillis {
        self.rank.at()
    }

    /// Returns, as text, the part of the key that distinguishes jobs of the same time.
    pub fn tie(&self) -> String {
        let (order, slot, priority) = (self.order, self.slot, self.rank.priority());
        match priority.is_standard() {
            true => format!("{order}.{slot}"),
            false => format!("{order}.{slot}.{priority}"),
        }
    }

    pub fn position(&self) -> JobPosition {
        JobPosition { at: self.at(), tie: self.tie() }
    }

    /// Parses the key of a job in the set of this state.
    pub fn parse(state: State, at: UnixMillis, tie: &str) -> Option<Self> {
        let (order, rest) = tie.split_once('.')?;
        let (slot, priority) = match rest.split_once('.') {
            Some((slot, priority)) => (slot, priority.parse().ok()?),
            None => (rest, Priority::STANDARD),
        };
        let rank = Rank::new(state, priority, at);
        Some(Self { rank, order: order.parse().ok()?, slot: slot.parse().ok()? })
    }
}

/// Lower bound of all keys.
const SMALLEST: IndexKey = IndexKey::first(Rank(0));

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
        // Keys that arrive in order fill each chunk completely before the next one begins.
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
        let chunks = self.chunks.range(self.bound_before(from)..);
        let keys = chunks.flat_map(|(_, chunk)| chunk).copied();
        keys.skip_while(move |key| is_before(key, from))
    }

    /// Counts the keys from `from` on and before `end`, chunk by chunk.
    pub fn count(&self, from: Bound<IndexKey>, end: IndexKey) -> usize {
        let begin = self.bound_before(from);
        if begin >= end {
            return 0;
        }
        let mut chunks = self.chunks.range(begin..end).map(|(_, chunk)| chunk);
        let all: usize = chunks.clone().map(Vec::len).sum();
        let before = |chunk: &Vec<_>| chunk.partition_point(|key| is_before(key, from));
        let after = |chunk: &Vec<_>| chunk.len() - chunk.partition_point(|key| *key < end);
        let last = chunks.clone().next_back().map_or(0, after);
        // Nothing is left if `from` is not before `end`.
        all.saturating_sub(last + chunks.next().map_or(0, before))
    }

    /// Returns the key that follows `n` others from `from` on, chunk by chunk.
    pub fn nth(&self, from: Bound<IndexKey>, mut n: usize) -> Option<IndexKey> {
        let mut chunks = self.chunks.range(self.bound_before(from)..).map(|(_, chunk)| chunk);
        let first = chunks.next()?;
        n += first.partition_point(|key| is_before(key, from));
        for chunk in iter::once(first).chain(chunks) {
            if let Some(key) = chunk.get(n) {
                return Some(*key);
            }
            n -= chunk.len();
        }
        None
    }

    /// Returns the bound of the chunk in which the keys from `from` on begin.
    fn bound_before(&self, from: Bound<IndexKey>) -> IndexKey {
        let lowest = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => SMALLEST,
        };
        self.chunks.range(..=lowest).next_back().map_or(SMALLEST, |(bound, _)| *bound)
    }
}

impl From<Vec<IndexKey>> for Keys {
    fn from(mut keys: Vec<IndexKey>) -> Self {
        keys.sort_unstable();
        let chunks = keys.chunks(CHUNK).map(|chunk| (chunk[0], chunk.to_vec()));
        Self { len: keys.len(), chunks: chunks.collect() }
    }
}

fn is_before(key: &IndexKey, from: Bound<IndexKey>) -> bool {
    !(from, Bound::Unbounded).contains(key)
}

fn insert(chunk: &mut Vec<IndexKey>, place: usize, key: IndexKey) {
    if chunk.len() == chunk.capacity() {
        chunk.reserve_exact(GROWTH);
    }
    chunk.insert(place, key);
}

#[cfg(test)]
mod tests;
