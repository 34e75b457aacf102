//! Reads of the index.

use std::ops::Bound;

use super::{Index, IndexKey, Keys, Rank, Slot};
use crate::job::{Priority, State, Topic, UnixMillis};

impl Index {
    pub fn jobs(&self) -> u64 {
        self.by_id.len() as u64
    }

    /// Returns the total size of the bodies of a topic, in bytes.
    pub fn bytes(&self, topic: &Topic) -> u64 {
        self.by_name.get(topic).map_or(0, |&number| self.topics[number as usize].bytes)
    }

    pub fn next_deadline(&self) -> Option<UnixMillis> {
        let expiry = self.expiring.first().map(|key| key.at());
        [self.deadlines.first(), expiry].into_iter().flatten().min()
    }

    /// Returns the delayed or ready job that expires first, if it expires up to `until`.
    pub fn first_expired(&self, until: UnixMillis) -> Option<Slot> {
        self.expiring.first().filter(|key| key.at() <= until).map(|key| key.slot)
    }

    /// Returns the job with the earliest deadline up to `until`. Ignores finished jobs.
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
    /// `before`. Ready jobs have one range of times for each priority.
    pub fn between(
        &self,
        topic: &Topic,
        state: State,
        (from, after): (Option<UnixMillis>, Option<IndexKey>),
        before: Option<UnixMillis>,
    ) -> impl Iterator<Item = IndexKey> {
        let priorities = Priority::from_highest()
            .filter(move |priority| state == State::Ready || priority.is_standard());
        let ranges = priorities.map(move |priority| {
            let begin = Rank::new(state, priority, from.unwrap_or(UnixMillis::new(0)));
            let end = before.map(|before| Rank::new(state, priority, before));
            let begin = Bound::Included(IndexKey::first(begin));
            (begin, end.unwrap_or(Rank::end(state, priority)))
        });
        let ranges: Vec<_> = ranges.collect();
        let set = self.set(topic, state);
        let behind = move |begin| match (after, begin) {
            (Some(after), Bound::Included(first)) if after >= first => Bound::Excluded(after),
            _ => begin,
        };
        set.into_iter().flat_map(move |set| {
            ranges.clone().into_iter().flat_map(move |(begin, end)| {
                set.range_from(behind(begin)).take_while(move |key| key.rank() < end)
            })
        })
    }

    fn set(&self, topic: &Topic, state: State) -> Option<&Keys> {
        let number = *self.by_name.get(topic)?;
        Some(&self.topics[number as usize].sets[state as usize])
    }
}
