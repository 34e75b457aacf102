//! The entries of all jobs by slot, in chunks of fixed size: growth neither moves entries nor
//! doubles the memory.

use std::ops::{Index, IndexMut};

use super::{Entry, Slot};

/// Number of entries in a chunk.
const CHUNK: usize = 1024;

#[derive(Debug, Default)]
pub struct Entries {
    chunks: Vec<Vec<Option<Entry>>>,
    free: Vec<Slot>,
}

impl Entries {
    pub fn insert(&mut self, entry: Entry) -> Slot {
        if let Some(slot) = self.free.pop() {
            let (chunk, place) = locate(slot);
            self.chunks[chunk][place] = Some(entry);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        let slot = last * CHUNK + self.chunks[last].len();
        self.chunks[last].push(Some(entry));
        Slot::try_from(slot).expect("fewer jobs than 2^32 fit into memory")
    }

    /// Removes an entry, which must exist; its slot will be used again.
    pub fn remove(&mut self, slot: Slot) -> Entry {
        let (chunk, place) = locate(slot);
        let entry = self.chunks[chunk][place].take();
        self.free.push(slot);
        entry.expect(OCCUPIED)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        let all = self.chunks.iter().flatten().zip(0..);
        all.filter_map(|(entry, slot)| Some((slot, entry.as_ref()?)))
    }

    /// Returns the slots after this one, in order, each with its entry if it is occupied.
    pub fn iter_after(&self, slot: Slot) -> impl Iterator<Item = (Slot, Option<&Entry>)> {
        let (chunk, place) = locate(slot);
        let after = self.chunks[chunk..].iter().flatten().skip(place + 1);
        after.zip(slot + 1..).map(|(entry, slot)| (slot, entry.as_ref()))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.iter().count()
    }
}

const OCCUPIED: &str = "the slot of a job is occupied";

impl Index<Slot> for Entries {
    type Output = Entry;

    fn index(&self, slot: Slot) -> &Entry {
        let (chunk, place) = locate(slot);
        self.chunks[chunk][place].as_ref().expect(OCCUPIED)
    }
}

impl IndexMut<Slot> for Entries {
    fn index_mut(&mut self, slot: Slot) -> &mut Entry {
        let (chunk, place) = locate(slot);
        self.chunks[chunk][place].as_mut().expect(OCCUPIED)
    }
}

fn locate(slot: Slot) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use proptest::prelude::*;

    use super::{
        super::{Kind, Size},
        *,
    };
    use crate::job::{Policy, State, UnixMillis};

    fn entry(serial: u64) -> Entry {
        Entry {
            id_length: 0,
            state: State::Ready,
            size: Size::default(),
            id_place: 0,
            serial,
            at: UnixMillis::new(0),
            kind: Arc::new(Kind { topic: 0, policy: Policy::STANDARD }),
            attempt: None,
        }
    }

    proptest! {
        #[test]
        fn entries_stay_in_their_slots(
            steps in prop::collection::vec((0..3 * CHUNK, any::<prop::sample::Index>()), 1..12),
        ) {
            let (mut entries, mut model) = (Entries::default(), BTreeMap::new());
            for (count, gone) in steps {
                for _ in 0..count {
                    let serial = model.len() as u64;
                    prop_assert!(model.insert(entries.insert(entry(serial)), serial).is_none());
                }
                let removed: Vec<Slot> = model.keys().copied().step_by(1 + gone.index(5)).collect();
                for slot in removed {
                    prop_assert_eq!(Some(entries.remove(slot).serial), model.remove(&slot));
                }
                let seen = entries.iter().map(|(slot, entry)| (slot, entry.serial));
                prop_assert!(seen.eq(model.iter().map(|(slot, serial)| (*slot, *serial))));
                prop_assert!(model.iter().all(|(slot, serial)| entries[*slot].serial == *serial));
            }
        }
    }
}
