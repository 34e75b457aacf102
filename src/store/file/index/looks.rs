//! Reads of the index.

use std::ops::Bound;

use super::{Class, Entry, Index, IndexKey, Keys, Rank, Slot};
use crate::job::{Priority, State, Topic, UnixMillis};

/// Number of slots in a row without a meant job after which a neighbourhood ends. A page of the
/// file has fewer rows.
const MAX_PASSED: usize = 32;

impl Index {
    pub fn jobs(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// Returns the total size of the bodies of a topic, in bytes.
    pub fn bytes(&self, topic: &Topic) -> u64 {
        self.by_name.get(topic).map_or(0, |&number| self.topics[number as usize].bytes)
    }

    pub fn next_deadline(&self) -> Option<UnixMillis> {
        [self.deadlines.first(), self.first_expiry()].into_iter().flatten().min()
    }

    /// Returns the next deadline that is not the end of a retention.
    pub fn next_death(&self) -> Option<UnixMillis> {
        [self.deadlines.first_living(), self.first_expiry()].into_iter().flatten().min()
    }

    fn first_expiry(&self) -> Option<UnixMillis> {
        self.expiring.first().map(|key| key.at())
    }

    /// Returns the delayed and ready jobs that expire up to `until`.
    pub fn expired(&self, until: UnixMillis) -> Vec<Slot> {
        let expired = self.expiring.iter().take_while(|key| key.at() <= until);
        expired.map(|key| key.slot).collect()
    }

    /// Returns the delayed or ready job that expires first, if it expires up to `until`.
    pub fn first_expired(&self, until: UnixMillis) -> Option<Slot> {
        self.expiring.first().filter(|key| key.at() <= until).map(|key| key.slot)
    }

    /// Returns the job with the earliest deadline of a class, up to `until`.
    pub fn first_due(&self, class: Class, until: UnixMillis) -> Option<Slot> {
        let (topic, state) = self.deadlines.first_set(class, until)?;
        self.topics[topic as usize].sets[state as usize].first().map(|key| key.slot)
    }

    /// Returns up to `limit` jobs of the same topic and state as `first`, in its neighbourhood.
    pub fn neighbours(&self, first: Slot, limit: usize) -> Vec<Slot> {
        let Entry { state, kind, .. } = self.entry(first);
        self.near(first, limit, |entry| entry.state == *state && entry.kind.topic == kind.topic)
    }

    /// Returns up to `limit` jobs of the same state as `first`, in its neighbourhood, whose
    /// deadline is at most `until`.
    pub fn due_neighbours(&self, first: Slot, limit: usize, until: UnixMillis) -> Vec<Slot> {
        let state = self.entry(first).state;
        self.near(first, limit, |entry| entry.state == state && entry.at <= until)
    }

    /// Returns `first` and the meant jobs in the slots after it. Jobs that were put together have
    /// slots and rows next to each other, so deleting them together changes few pages of the file.
    fn near(&self, first: Slot, limit: usize, is_meant: impl Fn(&Entry) -> bool) -> Vec<Slot> {
        let (mut found, mut passed) = (vec![first], 0);
        for (slot, entry) in self.entries.iter_after(first) {
            if found.len() >= limit || passed >= MAX_PASSED {
                break;
            }
            // Removed jobs keep their slots until the end of the batch.
            if entry.is_some_and(|entry| is_meant(entry) && self.has_id(slot)) {
                found.push(slot);
                passed = 0;
            } else {
                passed += 1;
            }
        }
        found
    }

    /// Returns topics in order, starting at `first` and after `after`.
    pub fn topics_from(
        &self,
        first: Option<&Topic>,
        after: Option<&Topic>,
    ) -> impl Iterator<Item = &Topic> {
        let from = match (first, after) {
            (Some(first), after) if after.is_none_or(|after| after < first) => {
                Bound::Included(first)
            }
            (_, Some(after)) => Bound::Excluded(after),
            (_, None) => Bound::Unbounded,
        };
        let topics = self.by_name.range((from, Bound::Unbounded));
        // A topic without jobs remains until the removal of its last job is kept.
        topics
            .filter(|(_, number)| !self.topics[**number as usize].is_empty())
            .map(|(name, _)| name)
    }

    pub fn count(&self, topic: &Topic, state: State) -> u64 {
        self.set(topic, state).map_or(0, |set| set.len() as u64)
    }

    pub fn first(&self, topic: &Topic, state: State) -> Option<Slot> {
        self.set(topic, state)?.first().map(|key| key.slot)
    }

    /// Returns the earliest due time of the ready jobs of a topic, whatever their priorities.
    pub fn earliest_ready(&self, topic: &Topic) -> Option<UnixMillis> {
        let set = self.set(topic, State::Ready)?;
        let first = |priority| {
            let lowest = Rank::new(State::Ready, priority, UnixMillis::new(0));
            let end = Rank::end(State::Ready, priority);
            let key = set.range_from(Bound::Included(IndexKey::first(lowest))).next()?;
            (key.rank() < end).then(|| key.at())
        };
        Priority::from_highest().filter_map(first).min()
    }

    /// Returns jobs of a topic and state in order, after the key `after`.
    pub fn after(
        &self,
        topic: &Topic,
        state: State,
        after: Option<IndexKey>,
    ) -> impl Iterator<Item = IndexKey> {
        self.between(topic, state, (None, after), None)
    }

    /// Returns jobs like [`after`](Self::after), but only with a time of `from` or later and before
    /// `before`.
    pub fn between(
        &self,
        topic: &Topic,
        state: State,
        from: (Option<UnixMillis>, Option<IndexKey>),
        before: Option<UnixMillis>,
    ) -> impl Iterator<Item = IndexKey> {
        self.set(topic, state).into_iter().flat_map(move |set| {
            let ranges = ranges(state, from, before).into_iter();
            ranges.flat_map(move |(begin, end)| {
                set.range_from(begin).take_while(move |key| *key < end)
            })
        })
    }

    /// Counts the jobs that [`between`](Self::between) returns.
    pub fn count_between(
        &self,
        topic: &Topic,
        state: State,
        from: (Option<UnixMillis>, Option<IndexKey>),
        before: Option<UnixMillis>,
    ) -> usize {
        let Some(set) = self.set(topic, state) else { return 0 };
        ranges(state, from, before).into_iter().map(|(begin, end)| set.count(begin, end)).sum()
    }

    /// Returns the job after the first `n` jobs that [`between`](Self::between) returns.
    pub fn nth_between(
        &self,
        topic: &Topic,
        state: State,
        from: (Option<UnixMillis>, Option<IndexKey>),
        before: Option<UnixMillis>,
        mut n: usize,
    ) -> Option<IndexKey> {
        let set = self.set(topic, state)?;
        for (begin, end) in ranges(state, from, before) {
            let count = set.count(begin, end);
            if n < count {
                return set.nth(begin, n);
            }
            n -= count;
        }
        None
    }

    fn set(&self, topic: &Topic, state: State) -> Option<&Keys> {
        let number = *self.by_name.get(topic)?;
        Some(&self.topics[number as usize].sets[state as usize])
    }
}

/// Returns the ranges of keys of a set with a time of `from` or later and before `before`, after
/// the key `after`. Ready jobs have one range of times for each priority.
fn ranges(
    state: State,
    (from, after): (Option<UnixMillis>, Option<IndexKey>),
    before: Option<UnixMillis>,
) -> Vec<(Bound<IndexKey>, IndexKey)> {
    let priorities =
        Priority::from_highest().filter(|priority| state == State::Ready || priority.is_standard());
    let range = |priority| {
        let begin = Rank::new(state, priority, from.unwrap_or(UnixMillis::new(0)));
        let begin = IndexKey::first(begin);
        let end = before.map(|before| Rank::new(state, priority, before));
        let end = IndexKey::first(end.unwrap_or(Rank::end(state, priority)));
        match after {
            Some(after) if after >= begin => (Bound::Excluded(after), end),
            _ => (Bound::Included(begin), end),
        }
    };
    priorities.map(range).collect()
}
