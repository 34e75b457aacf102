//! Counts of jobs by topic and state, to compare a file with a store.

use std::collections::BTreeMap;

use crate::{
    job::{Bucket, State, Topic},
    store::{Counts, Store, StoreResult, TopicPage},
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<Topic, Counts>);

impl Tally {
    pub async fn of_bucket(store: &dyn Store, bucket: Bucket) -> StoreResult<Self> {
        let mut tally = Self::default();
        let mut page = TopicPage { limit: 1000, ..TopicPage::default() };
        loop {
            let topics = store.topics(bucket, page.clone()).await?;
            let more = topics.len() == page.limit;
            page.after = topics.last().map(|(topic, _)| topic.clone());
            tally.0.extend(topics.into_iter().map(|(topic, peek)| (topic, peek.counts)));
            if !more {
                return Ok(tally);
            }
        }
    }

    pub async fn of_store(store: &dyn Store) -> StoreResult<Self> {
        let mut sum = Self::default();
        for bucket in store.buckets().all() {
            for (topic, counts) in Self::of_bucket(store, bucket).await?.0 {
                let total = sum.0.entry(topic).or_default();
                *total = total.plus(counts);
            }
        }
        Ok(sum)
    }

    pub fn add(&mut self, topic: &Topic, state: State) {
        // `entry` would copy the name of the topic at every call.
        if !self.0.contains_key(topic) {
            self.0.insert(topic.clone(), Counts::default());
        }
        let counts = self.0.get_mut(topic).expect("it was inserted above");
        *counts.of_mut(state) += 1;
    }

    pub fn jobs(&self) -> u64 {
        self.0.values().map(jobs).sum()
    }

    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.0.keys()
    }

    /// Returns the tally with delayed jobs counted as ready, because opening a file store makes due
    /// jobs ready.
    pub fn with_delayed_as_ready(&self) -> Self {
        let merge = |counts: &Counts| Counts {
            delayed: 0,
            ready: counts.delayed + counts.ready,
            ..*counts
        };
        Self(self.0.iter().map(|(topic, counts)| (topic.clone(), merge(counts))).collect())
    }

    /// Returns the first topic whose counts differ from those in `other`, with both counts.
    pub fn first_difference<'a>(&'a self, other: &'a Self) -> Option<(&'a Topic, Counts, Counts)> {
        let counts = |tally: &Self, topic| tally.0.get(topic).copied().unwrap_or_default();
        let topics = self.0.keys().chain(other.0.keys());
        let mut pairs = topics.map(|topic| (topic, counts(self, topic), counts(other, topic)));
        pairs.find(|(_, own, others)| own != others)
    }

    /// Returns whether no topic has more jobs in any state than in `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(topic, counts)| {
            let others = other.0.get(topic).copied().unwrap_or_default();
            State::ALL.iter().all(|&state| counts.of(state) <= others.of(state))
        })
    }
}

fn jobs(counts: &Counts) -> u64 {
    State::ALL.iter().map(|&state| counts.of(state)).sum()
}
