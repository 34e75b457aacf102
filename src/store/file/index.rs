//! The jobs of a bucket in memory: by id, in the sorted sets of their topics, and by deadline.
//!
//! The index keeps the sets consistent, but knows no rules: the machine decides. A job is in
//! exactly one of the five sets of its topic. `deadlines` has the earliest deadline of every set.

mod deadlines;
mod entries;
mod entry;
mod expiries;
mod ids;
mod journal;
mod keys;
mod kinds;
mod looks;
mod size;

use std::{collections::BTreeMap, mem, panic, sync::Arc, thread};

use hashbrown::HashTable;
use slab::Slab;
use xxhash_rust::xxh3::xxh3_64;

use self::{
    deadlines::Deadlines,
    entries::Entries,
    expiries::Expiries,
    ids::{IdRef, Ids},
    journal::Journal,
    keys::Keys,
    kinds::Kinds,
};
use crate::job::{JobId, Policy, State, Topic, UnixMillis};

pub use self::{
    deadlines::Class,
    entry::{Arrival, Attempt, Entry, Kind},
    keys::{IndexKey, Rank},
    size::Size,
};

/// Number of a job's entry.
pub type Slot = u32;

#[derive(Debug)]
struct TopicSets {
    name: Topic,
    /// Indexed by `State as usize`.
    sets: [Keys; State::ALL.len()],
    /// Total size of the bodies.
    bytes: u64,
    /// Kind of the job added last.
    kind: Arc<Kind>,
    /// Kind of all finished jobs: no transition needs their policies.
    kind_of_finished: Arc<Kind>,
}

#[derive(Debug, Default)]
pub struct Index {
    entries: Entries,
    ids: Ids,
    by_id: HashTable<Slot>,
    topics: Slab<TopicSets>,
    by_name: BTreeMap<Topic, u32>,
    kinds: Kinds,
    expiries: Expiries,
    deadlines: Deadlines,
    /// Delayed and ready jobs that expire, ordered by the time of their expiry.
    expiring: Keys,
    journal: Journal,
}

impl TopicSets {
    fn is_empty(&self) -> bool {
        self.sets.iter().all(Keys::is_empty)
    }
}

impl Index {
    pub fn find(&self, id: &JobId) -> Option<Slot> {
        let id = IdRef::from(id);
        self.by_id.find(hash(id), |&slot| self.ids.get(self.entry(slot).id()) == id).copied()
    }

    pub fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot]
    }

    pub fn id(&self, slot: Slot) -> JobId {
        self.ids.get(self.entry(slot).id()).full()
    }

    /// Returns the entry for changes of all fields except state, time, policy and size.
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.note(slot);
        &mut self.entries[slot]
    }

    pub fn reserved(&self) -> Vec<Slot> {
        let sets = self.topics.iter().map(|(_, topic)| &topic.sets[State::Reserved as usize]);
        sets.flat_map(Keys::iter).map(|key| key.slot).collect()
    }

    pub fn topic(&self, slot: Slot) -> &Topic {
        &self.topics[self.entry(slot).kind.topic as usize].name
    }

    /// Adds a job, whose id must be free.
    pub fn insert(&mut self, arrival: Arrival) {
        let slot = self.add(arrival);
        self.link(slot);
        self.journal.inserted(slot);
    }

    /// Puts all jobs that were [added](Self::add) into their sets, which must be empty: sorting
    /// them at once is faster than adding them one by one. Two threads share the topics.
    pub fn link_all(&mut self) {
        let topics = self.topics.iter().map(|(number, _)| number + 1).max().unwrap_or_default();
        let mut counts = vec![[0; State::ALL.len()]; topics];
        for (_, entry) in self.entries.iter() {
            counts[entry.kind.topic as usize][entry.state as usize] += 1;
        }
        let mut sets: Vec<[Vec<IndexKey>; State::ALL.len()]> =
            counts.into_iter().map(|counts| counts.map(Vec::with_capacity)).collect();
        let mut expiring = Vec::new();
        for (slot, entry) in self.entries.iter() {
            let topic = entry.kind.topic as usize;
            self.topics[topic].bytes += entry.counted_bytes();
            sets[topic][entry.state as usize].push(entry.key(slot));
            expiring.extend(entry.expiry_key(slot, self.expiries.get(slot)));
        }
        self.expiring = Keys::from(expiring);
        let (one, other): (Vec<u32>, Vec<u32>) =
            self.by_name.values().partition(|topic| *topic % 2 == 0);
        let mut unsorted = |topics: Vec<u32>| -> Vec<_> {
            topics.into_iter().map(|topic| (topic, mem::take(&mut sets[topic as usize]))).collect()
        };
        let (one, other) = (unsorted(one), unsorted(other));
        let sorted = thread::scope(|scope| {
            let other = scope.spawn(|| sort(other));
            let mut sorted = sort(one);
            sorted.extend(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
            sorted
        });
        for (topic, sets) in sorted {
            for (state, set) in State::ALL.into_iter().zip(&sets) {
                let first = set.first().map(|key| key.at());
                self.deadlines.change((topic, state), None, first);
            }
            self.topics[topic as usize].sets = sets;
        }
    }

    pub fn make_room(&mut self, jobs: usize) {
        let (entries, ids) = (&self.entries, &self.ids);
        self.by_id.reserve(jobs, |&slot| hash(ids.get(entries[slot].id())));
    }

    /// Adds a job without putting it into a set. Neither policy nor attempt of a finished job is
    /// kept.
    pub fn add(&mut self, mut arrival: Arrival) -> Slot {
        let is_finished = arrival.state == State::Finished;
        let expires_at = arrival.policy.expires_at;
        if expires_at.is_some() {
            Arc::make_mut(&mut arrival.policy).expires_at = None;
        }
        let kind = self.shared(arrival.topic, (!is_finished).then_some(&*arrival.policy));
        let (id_length, id_place) = self.ids.add(IdRef::from(&arrival.id));
        let slot = self.entries.insert(Entry {
            id_length,
            state: arrival.state,
            size: arrival.size,
            id_place,
            serial: arrival.serial,
            at: arrival.at,
            kind,
            attempt: arrival.attempt.filter(|_| !is_finished),
        });
        self.expiries.set(slot, expires_at.filter(|_| !is_finished));
        self.know_id(slot);
        slot
    }

    /// Removes a job; its slot stays occupied until [`keep_changes`](Self::keep_changes).
    pub fn remove(&mut self, slot: Slot) {
        self.unlink(slot);
        self.forget_id(slot);
        self.journal.removed(slot);
    }

    /// Frees the slot and the id of a removed job, and records that its topic may be empty.
    fn free(&mut self, slot: Slot) {
        let entry = self.entries.remove(slot);
        self.ids.remove(entry.id());
        self.expiries.set(slot, None);
        self.journal.emptied(entry.kind.topic);
    }

    fn know_id(&mut self, slot: Slot) {
        let (entries, ids) = (&self.entries, &self.ids);
        let hash_of = |&slot: &Slot| hash(ids.get(entries[slot].id()));
        self.by_id.insert_unique(hash_of(&slot), slot, hash_of);
    }

    /// Returns whether the id of an occupied slot is known: the job has not been removed.
    fn has_id(&self, slot: Slot) -> bool {
        let hash = hash(self.ids.get(self.entry(slot).id()));
        self.by_id.find(hash, |&other| other == slot).is_some()
    }

    fn forget_id(&mut self, slot: Slot) {
        let hash = hash(self.ids.get(self.entry(slot).id()));
        if let Ok(found) = self.by_id.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
    }

    /// Returns when a job expires, in whatever state it is.
    pub fn expires_at(&self, slot: Slot) -> Option<UnixMillis> {
        self.expiries.get(slot)
    }

    /// Returns whether a job has expired at `time`, for instance at a new due time.
    pub fn has_expired_by(&self, slot: Slot, time: UnixMillis) -> bool {
        self.expires_at(slot).is_some_and(|expires_at| expires_at <= time)
    }

    /// Returns the policy of a job, with the time of its expiry.
    pub fn policy(&self, slot: Slot) -> Policy {
        Policy { expires_at: self.expires_at(slot), ..self.entry(slot).kind.policy.clone() }
    }

    /// Moves a job to another set or another time.
    pub fn place(&mut self, slot: Slot, state: State, at: UnixMillis) {
        let entry = self.entry_mut(slot); // notes its state for a rollback
        if (entry.state, entry.at) == (state, at) {
            return;
        }
        self.unlink(slot);
        let entry = &mut self.entries[slot];
        entry.state = state;
        entry.at = at;
        self.link(slot);
    }

    pub fn set_policy(&mut self, slot: Slot, mut policy: Policy) {
        self.note(slot);
        self.unlink(slot);
        self.expiries.set(slot, policy.expires_at.take());
        let topic = self.entry(slot).kind.topic;
        self.entries[slot].kind = self.kinds.shared(topic, &policy);
        self.link(slot);
    }

    /// Makes a job ready in another topic, with another policy. A job that has moved does not
    /// expire.
    pub fn change_topic(&mut self, slot: Slot, topic: Topic, policy: &Policy, at: UnixMillis) {
        self.note(slot);
        self.unlink(slot);
        let kind = self.shared(topic, Some(policy));
        let entry = &mut self.entries[slot];
        // After a rollback, the other topic may have no jobs.
        self.journal.emptied(entry.kind.topic);
        self.journal.emptied(kind.topic);
        (entry.kind, entry.state, entry.at) = (kind, State::Ready, at);
        self.expiries.set(slot, None);
        self.link(slot);
    }

    pub fn resize(&mut self, slot: Slot, size: Size) {
        self.note(slot);
        self.unlink(slot);
        self.entries[slot].size = size;
        self.link(slot);
    }

    /// Makes a job finished until `at`, and forgets its policy and its attempt. `size` is that of
    /// its result.
    pub fn finish(&mut self, slot: Slot, at: UnixMillis, size: Size) {
        self.note(slot);
        self.unlink(slot);
        let entry = &mut self.entries[slot];
        entry.kind = Arc::clone(&self.topics[entry.kind.topic as usize].kind_of_finished);
        (entry.state, entry.at, entry.size, entry.attempt) = (State::Finished, at, size, None);
        self.expiries.set(slot, None);
        self.link(slot);
    }

    /// Returns the kind of a job. Without a policy, this is the kind of finished jobs. Most jobs
    /// have the kind of the job that was added before them.
    fn shared(&mut self, name: Topic, policy: Option<&Policy>) -> Arc<Kind> {
        let number = match self.by_name.get(&name) {
            Some(&number) => number,
            None => self.add_topic(name),
        };
        let topic = &mut self.topics[number as usize];
        let Some(policy) = policy else { return Arc::clone(&topic.kind_of_finished) };
        if topic.kind.policy != *policy {
            topic.kind = self.kinds.shared(number, policy);
        }
        Arc::clone(&topic.kind)
    }

    /// Adds a topic without jobs; returns its number.
    fn add_topic(&mut self, name: Topic) -> u32 {
        let number = u32::try_from(self.topics.vacant_key());
        let number = number.expect("fewer topics than 2^32 fit into memory");
        let kind = self.kinds.shared(number, &Policy::STANDARD);
        self.topics.insert(TopicSets {
            name: name.clone(),
            sets: Default::default(),
            bytes: 0,
            kind: Arc::clone(&kind),
            kind_of_finished: kind,
        });
        self.by_name.insert(name, number);
        number
    }

    fn link(&mut self, slot: Slot) {
        self.change_set(slot, |set, key| {
            set.insert(key);
        });
        let entry = &self.entries[slot];
        if let Some(key) = entry.expiry_key(slot, self.expiries.get(slot)) {
            self.expiring.insert(key);
        }
        self.topics[entry.kind.topic as usize].bytes += entry.counted_bytes();
    }

    fn unlink(&mut self, slot: Slot) {
        self.change_set(slot, |set, key| {
            set.remove(key);
        });
        let entry = &self.entries[slot];
        if let Some(key) = entry.expiry_key(slot, self.expiries.get(slot)) {
            self.expiring.remove(key);
        }
        self.topics[entry.kind.topic as usize].bytes -= entry.counted_bytes();
    }

    /// Changes the set of a job, and updates the first deadline of that set.
    fn change_set(&mut self, slot: Slot, change: impl FnOnce(&mut Keys, IndexKey)) {
        let entry = &self.entries[slot];
        let key = entry.key(slot);
        let (topic, state) = (entry.kind.topic, entry.state);
        let set = &mut self.topics[topic as usize].sets[state as usize];
        let before = set.first().map(|key| key.at());
        change(set, key);
        let after = set.first().map(|key| key.at());
        self.deadlines.change((topic, state), before, after);
    }
}

/// Sorts the sets of each topic.
fn sort<const N: usize>(topics: Vec<(u32, [Vec<IndexKey>; N])>) -> Vec<(u32, [Keys; N])> {
    topics.into_iter().map(|(topic, sets)| (topic, sets.map(Keys::from))).collect()
}

fn hash(id: IdRef<'_>) -> u64 {
    match id {
        IdRef::Number(number) => xxh3_64(&number.to_le_bytes()),
        IdRef::Text(text) => xxh3_64(text),
    }
}
