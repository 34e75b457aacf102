//! Reads of the index.

use std::ops::Bound;

use super::{Index, IndexKey, Keys, Slot};
use crate::job::{State, Topic, UnixMillis};

impl Index {
    pub fn jobs(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// Returns the total size of the bodies of a topic, in bytes.
    pub fn bytes(&self, topic: &Topic) -> u64 {
        self.by_name.get(topic).map_or(0, |&number| self.topics[number as usize].bytes)
    }

    pub fn next_deadline(&self) -> Option<UnixMillis> {
        self.deadlines.first()
    }

    /// Returns the job with the earliest deadline up to `until`, other than finished ones.
    pub fn first_due(&self, until: UnixMillis) -> Option<Slot> {
        self.first_of(self.deadlines.first_set(false, until)?)
    }

    /// Returns the finished job whose retention ends first, up to `until`.
    pub fn first_finished(&self, until: UnixMillis) -> Option<Slot> {
        self.first_of(self.deadlines.first_set(true, until)?)
    }

    fn first_of(&self, (topic, state): (u32, State)) -> Option<Slot> {
        self.topics[topic as usize].sets[state as usize].first().map(|key| key.slot)
    }

    /// Returns topics in order: from `first` on, and after `after`.
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
        // A topic whose last job was removed stays until the removal is kept.
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

    /// Returns jobs of a topic and state in order, behind the key `after`.
    pub fn after(
        &self,
        topic: &Topic,
        state: State,
        after: Option<IndexKey>,
    ) -> impl Iterator<Item = IndexKey> {
        self.between(topic, state, (None, after), None)
    }

    /// Returns jobs like [`after`](Self::after), with a time of `from` or later and before
    /// `before`.
    pub fn between(
        &self,
        topic: &Topic,
        state: State,
        (from, after): (Option<UnixMillis>, Option<IndexKey>),
        before: Option<UnixMillis>,
    ) -> impl Iterator<Item = IndexKey> {
        let from = from.map_or(Bound::Unbounded, |from| Bound::Included(IndexKey::first(from)));
        let from = after.map_or(from, Bound::Excluded);
        let set = self.set(topic, state);
        let keys = set.map(|set| set.range_from(from)).into_iter().flatten();
        keys.take_while(move |key| before.is_none_or(|end| key.at < end))
    }

    fn set(&self, topic: &Topic, state: State) -> Option<&Keys> {
        let number = *self.by_name.get(topic)?;
        Some(&self.topics[number as usize].sets[state as usize])
    }
}
