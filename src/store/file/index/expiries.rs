//! When jobs expire, by slot. Only jobs that expire take memory here, and no policy has the time of
//! a single job, so that jobs share their policies.

use super::Slot;
use crate::job::UnixMillis;

/// Number of slots in a chunk: the most that one job that expires takes for others that do not.
const CHUNK: usize = 16;
/// Time of a slot whose job does not expire.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
pub struct Expiries {
    /// Chunks without a time are absent.
    chunks: Vec<Option<Box<[u64; CHUNK]>>>,
}

impl Expiries {
    pub fn get(&self, slot: Slot) -> Option<UnixMillis> {
        let (chunk, place) = locate(slot);
        let at = self.chunks.get(chunk)?.as_ref()?[place];
        (at != NEVER).then(|| UnixMillis::new(at))
    }

    pub fn set(&mut self, slot: Slot, at: Option<UnixMillis>) {
        let (chunk, place) = locate(slot);
        match at {
            Some(at) => {
                if self.chunks.len() <= chunk {
                    self.chunks.resize_with(chunk + 1, || None);
                }
                self.chunks[chunk].get_or_insert_with(|| Box::new([NEVER; CHUNK]))[place] =
                    at.get();
            }
            None => {
                let Some(known) = self.chunks.get_mut(chunk) else { return };
                let Some(times) = known else { return };
                times[place] = NEVER;
                if times.iter().all(|at| *at == NEVER) {
                    *known = None;
                }
            }
        }
    }
}

fn locate(slot: Slot) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_are_found_by_slot_and_take_no_memory_afterwards(
            steps in prop::collection::vec((0_u32..100, prop::option::of(0_u64..9)), 0..200),
        ) {
            let (mut expiries, mut model) = (Expiries::default(), HashMap::new());
            for (slot, at) in steps {
                let at = at.map(UnixMillis::new);
                expiries.set(slot, at);
                model.insert(slot, at);
                for slot in 0..120 {
                    prop_assert_eq!(expiries.get(slot), model.get(&slot).copied().flatten());
                }
            }
            (0..100).for_each(|slot| expiries.set(slot, None));
            prop_assert!(expiries.chunks.iter().all(Option::is_none));
        }
    }
}
