//! The jobs of a bucket in memory: by id, in the sorted sets of their topics, and by deadline.
//!
//! The index keeps the sets consistent and knows no rules; the machine decides. A job is in exactly
//! one of its topic's four sets; `bucket` has the earliest deadline of every set with deadlines.

mod id;
mod journal;
mod looks;
mod size;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    iter, mem,
    sync::Arc,
};

use hashbrown::HashTable;
use slab::Slab;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use self::{
    id::{IdRef, SmallId},
    journal::Journal,
};
use crate::job::{JobId, Millis, Policy, Reservation, State, Topic, UnixMillis};

pub use self::size::Size;

/// Number of a job's entry.
pub type Slot = u32;

/// A job in memory, without its body.
#[derive(Debug)]
pub struct Entry {
    id: SmallId,
    /// Serial number of its record.
    pub serial: u64,
    /// The due time, or the deadline if reserved or dead; orders the set of its state.
    pub at: UnixMillis,
    /// The decisive part of its policy, shared with the job put before if both are equal.
    pub policy: Arc<Policy>,
    /// Present from the first pop on.
    pub attempt: Option<Box<Attempt>>,
    topic: u32,
    size: Size,
    pub state: State,
}

impl Entry {
    pub fn id(&self) -> JobId {
        self.id.full()
    }

    /// Returns the size of the body in bytes, rounded up.
    pub fn body_bytes(&self) -> u64 {
        self.size.bytes()
    }

    fn key(&self, slot: Slot) -> IndexKey {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
        let order = self.serial as u32;
        IndexKey { at: self.at, order, slot }
    }
}

/// The last attempt of a popped job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    /// Reservation of the last pop, if it has not ended.
    pub reservation: Option<Reservation>,
    /// Due time before the pop.
    pub due_at: UnixMillis,
    pub died_at: UnixMillis,
    /// TTR of the last pop or touch.
    pub ttr: Millis,
    /// Whether the TTR has expired; not on disk, since it follows from the deadline.
    pub expired: bool,
}

/// A new or loaded job to be added to the index.
#[derive(Debug)]
pub struct Arrival {
    pub id: JobId,
    pub topic: Topic,
    pub serial: u64,
    pub state: State,
    pub at: UnixMillis,
    /// The whole policy, or its decisive part.
    pub policy: Policy,
    pub attempt: Option<Attempt>,
    pub size: Size,
}

/// Key of a job in a sorted set: by time, then by order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexKey {
    pub at: UnixMillis,
    /// Low half of the serial number: enough to keep jobs of one millisecond in order.
    order: u32,
    pub slot: Slot,
}

impl IndexKey {
    /// Returns, as text, the part of the key that distinguishes jobs of the same time.
    pub fn tie(&self) -> String {
        format!("{}.{}", self.order, self.slot)
    }

    pub fn parse(at: UnixMillis, tie: &str) -> Option<Self> {
        let (order, slot) = tie.split_once('.')?;
        Some(Self { at, order: order.parse().ok()?, slot: slot.parse().ok()? })
    }
}

#[derive(Debug)]
struct TopicSets {
    name: Topic,
    /// Indexed by `State as usize`.
    sets: [BTreeSet<IndexKey>; 4],
    /// Total size of the bodies.
    bytes: u64,
    /// Policy of the job added last.
    policy: Arc<Policy>,
}

#[derive(Debug, Default)]
pub struct Index {
    entries: Slab<Entry>,
    by_id: HashTable<Slot>,
    topics: Slab<TopicSets>,
    by_name: BTreeMap<Topic, u32>,
    bucket: BTreeSet<(UnixMillis, u32, State)>,
    journal: Journal,
}

impl TopicSets {
    fn is_empty(&self) -> bool {
        self.sets.iter().all(BTreeSet::is_empty)
    }
}

impl Index {
    pub fn find(&self, id: &JobId) -> Option<Slot> {
        let id = IdRef::from(id);
        self.by_id.find(hash(id), |&slot| self.entry(slot).id.borrowed() == id).copied()
    }

    pub fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    /// Returns the entry, to change anything but its state, time and size.
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.note(slot);
        &mut self.entries[slot as usize]
    }

    pub fn reserved(&self) -> Vec<Slot> {
        let sets = self.topics.iter().map(|(_, topic)| &topic.sets[State::Reserved as usize]);
        sets.flatten().map(|key| key.slot).collect()
    }

    pub fn topic(&self, slot: Slot) -> &Topic {
        &self.topics[self.entry(slot).topic as usize].name
    }

    /// Adds a job, whose id must be free.
    pub fn insert(&mut self, arrival: Arrival) {
        let slot = self.add(arrival);
        self.link(slot);
        self.journal.inserted(slot);
    }

    /// Puts all jobs that were [added](Self::add) into their sets, which must be empty: sorting
    /// them at once is faster than adding them one by one.
    pub fn link_all(&mut self) {
        let topics = self.topics.iter().map(|(number, _)| number + 1).max().unwrap_or_default();
        let mut sets: Vec<[Vec<IndexKey>; 4]> =
            iter::repeat_with(Default::default).take(topics).collect();
        for (slot, entry) in &self.entries {
            self.topics[entry.topic as usize].bytes += entry.size.bytes();
            sets[entry.topic as usize][entry.state as usize].push(entry.key(slot_of(slot)));
        }
        for &topic in self.by_name.values() {
            for state in State::ALL {
                let keys = mem::take(&mut sets[topic as usize][state as usize]);
                let set: BTreeSet<IndexKey> = keys.into_iter().collect();
                if let Some(first) = set.first().filter(|_| state != State::Ready) {
                    self.bucket.insert((first.at, topic, state));
                }
                self.topics[topic as usize].sets[state as usize] = set;
            }
        }
    }

    pub fn make_room(&mut self, jobs: usize) {
        self.entries.reserve(jobs);
        let entries = &self.entries;
        self.by_id.reserve(jobs, |&slot| hash(entries[slot as usize].id.borrowed()));
    }

    /// Adds a job without putting it into a set.
    pub fn add(&mut self, arrival: Arrival) -> Slot {
        let (topic, policy) = self.shared(arrival.topic, arrival.policy.decisive());
        let slot = self.entries.insert(Entry {
            id: IdRef::from(&arrival.id).into(),
            serial: arrival.serial,
            at: arrival.at,
            policy,
            attempt: arrival.attempt.map(Box::new),
            topic,
            size: arrival.size,
            state: arrival.state,
        });
        let slot = slot_of(slot);
        self.know_id(slot);
        slot
    }

    /// Removes a job; its slot stays occupied until [`settle`](Self::settle).
    pub fn remove(&mut self, slot: Slot) {
        self.unlink(slot);
        self.forget_id(slot);
        self.journal.removed(slot);
    }

    fn know_id(&mut self, slot: Slot) {
        let entries = &self.entries;
        let hash_of = |&slot: &Slot| hash(entries[slot as usize].id.borrowed());
        self.by_id.insert_unique(hash_of(&slot), slot, hash_of);
    }

    fn forget_id(&mut self, slot: Slot) {
        let hash = hash(self.entry(slot).id.borrowed());
        if let Ok(found) = self.by_id.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
    }

    /// Moves a job to another set or another time.
    pub fn place(&mut self, slot: Slot, state: State, at: UnixMillis) {
        let entry = self.entry_mut(slot); // notes its state for a rollback
        if (entry.state, entry.at) == (state, at) {
            return;
        }
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        entry.state = state;
        entry.at = at;
        self.link(slot);
    }

    pub fn resize(&mut self, slot: Slot, size: Size) {
        self.note(slot);
        self.unlink(slot);
        self.entries[slot as usize].size = size;
        self.link(slot);
    }

    /// Returns the number of a topic, and the shared policy of the job added before if it is equal.
    fn shared(&mut self, name: Topic, policy: Policy) -> (u32, Arc<Policy>) {
        if let Some(&number) = self.by_name.get(&name) {
            let last = &mut self.topics[number as usize].policy;
            if **last != policy {
                *last = Arc::new(policy);
            }
            return (number, Arc::clone(last));
        }
        let policy = Arc::new(policy);
        let sets = Default::default();
        let topic = TopicSets { name: name.clone(), sets, bytes: 0, policy: Arc::clone(&policy) };
        let number = u32::try_from(self.topics.insert(topic));
        let number = number.expect("fewer topics than 2^32 fit into memory");
        self.by_name.insert(name, number);
        (number, policy)
    }

    fn link(&mut self, slot: Slot) {
        self.change_set(slot, |set, key| {
            set.insert(key);
        });
        let entry = &self.entries[slot as usize];
        self.topics[entry.topic as usize].bytes += entry.size.bytes();
    }

    fn unlink(&mut self, slot: Slot) {
        self.change_set(slot, |set, key| {
            set.remove(&key);
        });
        let entry = &self.entries[slot as usize];
        self.topics[entry.topic as usize].bytes -= entry.size.bytes();
    }

    /// Changes the set of a job, and updates the first deadline of that set in `bucket`.
    fn change_set(&mut self, slot: Slot, change: impl FnOnce(&mut BTreeSet<IndexKey>, IndexKey)) {
        let entry = &self.entries[slot as usize];
        let key = entry.key(slot);
        let (topic, state) = (entry.topic, entry.state);
        let set = &mut self.topics[topic as usize].sets[state as usize];
        let before = set.first().map(|key| key.at);
        change(set, key);
        let after = set.first().map(|key| key.at);
        if state != State::Ready && before != after {
            if let Some(at) = before {
                self.bucket.remove(&(at, topic, state));
            }
            if let Some(at) = after {
                self.bucket.insert((at, topic, state));
            }
        }
    }
}

fn slot_of(key: usize) -> Slot {
    Slot::try_from(key).expect("fewer jobs than 2^32 fit into memory")
}

fn hash(id: IdRef<'_>) -> u64 {
    Xxh3DefaultBuilder.hash_one(id)
}
