//! Where every job is: the pool's index, the topics' sorted sets, and the bucket.
//!
//! Memory only, and no rules: it keeps the sets consistent, the machine decides. A job is in
//! exactly one of its topic's four sets; the bucket names, for every set with deadlines, its
//! earliest one.

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

/// A job's place in the index.
pub type Slot = u32;

/// What memory holds of a job; its body stays on disk.
#[derive(Debug)]
pub struct Entry {
    id: SmallId,
    /// The row of its record.
    pub serial: u64,
    /// Its place in the set of its state: the due time, or the deadline if reserved or dead.
    pub at: UnixMillis,
    /// The decisive part of its policy. Jobs of a topic mostly come with the same, and share it.
    pub policy: Arc<Policy>,
    /// From the first pop on.
    pub attempt: Option<Box<Attempt>>,
    topic: u32,
    /// Of its body.
    size: Size,
    pub state: State,
}

impl Entry {
    pub fn id(&self) -> JobId {
        self.id.full()
    }

    /// How many bytes its body has, about.
    pub fn body_bytes(&self) -> u64 {
        self.size.bytes()
    }

    fn place(&self, slot: Slot) -> Place {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
        let order = self.serial as u32;
        Place { at: self.at, order, slot }
    }
}

/// What pops have left on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    /// The last pop's, until it is released or buried.
    pub reservation: Option<Reservation>,
    /// The due time before the pop.
    pub due_at: UnixMillis,
    pub died_at: UnixMillis,
    /// The TTR in force.
    pub ttr: Millis,
    /// Its TTR ran out since; not written, since it follows from the deadline.
    pub expired: bool,
}

/// A new or loaded job, on its way in.
#[derive(Debug)]
pub struct Arrival {
    pub id: JobId,
    pub topic: Topic,
    pub serial: u64,
    pub state: State,
    pub at: UnixMillis,
    /// All of it, or the decisive part.
    pub policy: Policy,
    pub attempt: Option<Attempt>,
    /// Of its body.
    pub size: Size,
}

/// The place of a job in a sorted set: by time, then in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub at: UnixMillis,
    /// The low half of the serial number: enough to keep jobs of one millisecond in order.
    order: u32,
    pub slot: Slot,
}

impl Place {
    /// What tells it from others of its time, as text.
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
    /// By `State as usize`.
    sets: [BTreeSet<Place>; 4],
    /// The bodies of all of them.
    bytes: u64,
    /// That of the job that came last.
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

    /// The entry, to change anything but its place.
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.note(slot);
        &mut self.entries[slot as usize]
    }

    /// All reserved jobs.
    pub fn reserved(&self) -> Vec<Slot> {
        let sets = self.topics.iter().map(|(_, topic)| &topic.sets[State::Reserved as usize]);
        sets.flatten().map(|place| place.slot).collect()
    }

    pub fn topic(&self, slot: Slot) -> &Topic {
        &self.topics[self.entry(slot).topic as usize].name
    }

    /// Takes a job in. Its id must be free.
    pub fn insert(&mut self, arrival: Arrival) {
        let slot = self.add(arrival);
        self.link(slot);
        self.journal.inserted(slot);
    }

    /// Puts all jobs that were [added](Self::add) into their sets, which must be empty before:
    /// sorted at once, that is faster than one by one.
    pub fn link_all(&mut self) {
        let topics = self.topics.iter().map(|(number, _)| number + 1).max().unwrap_or_default();
        let mut sets: Vec<[Vec<Place>; 4]> =
            iter::repeat_with(Default::default).take(topics).collect();
        for (slot, entry) in &self.entries {
            self.topics[entry.topic as usize].bytes += entry.size.bytes();
            sets[entry.topic as usize][entry.state as usize].push(entry.place(slot_of(slot)));
        }
        for &topic in self.by_name.values() {
            for state in State::ALL {
                let places = mem::take(&mut sets[topic as usize][state as usize]);
                let set: BTreeSet<Place> = places.into_iter().collect();
                if let Some(first) = set.first().filter(|_| state != State::Ready) {
                    self.bucket.insert((first.at, topic, state));
                }
                self.topics[topic as usize].sets[state as usize] = set;
            }
        }
    }

    /// Makes room for so many jobs.
    pub fn make_room(&mut self, jobs: usize) {
        self.entries.reserve(jobs);
        let entries = &self.entries;
        self.by_id.reserve(jobs, |&slot| hash(entries[slot as usize].id.borrowed()));
    }

    /// Adds a job that is in no set yet.
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

    /// Forgets a job.
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
        let entry = self.entry_mut(slot); // notes how it was
        if (entry.state, entry.at) == (state, at) {
            return;
        }
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        entry.state = state;
        entry.at = at;
        self.link(slot);
    }

    /// A job has another body.
    pub fn resize(&mut self, slot: Slot, size: Size) {
        self.note(slot);
        self.unlink(slot);
        self.entries[slot as usize].size = size;
        self.link(slot);
    }

    /// The number of a topic, and a policy as a job of it shares that with the one before.
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
        self.change_set(slot, |set, place| {
            set.insert(place);
        });
        let entry = &self.entries[slot as usize];
        self.topics[entry.topic as usize].bytes += entry.size.bytes();
    }

    fn unlink(&mut self, slot: Slot) {
        self.change_set(slot, |set, place| {
            set.remove(&place);
        });
        let entry = &self.entries[slot as usize];
        self.topics[entry.topic as usize].bytes -= entry.size.bytes();
    }

    /// Changes the set a job is in, and keeps the bucket's word on that set's first deadline.
    fn change_set(&mut self, slot: Slot, change: impl FnOnce(&mut BTreeSet<Place>, Place)) {
        let entry = &self.entries[slot as usize];
        let place = entry.place(slot);
        let (topic, state) = (entry.topic, entry.state);
        let set = &mut self.topics[topic as usize].sets[state as usize];
        let before = set.first().map(|place| place.at);
        change(set, place);
        let after = set.first().map(|place| place.at);
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
