//! The ids of all jobs in memory. Ids of the same length share arrays, so an id needs no pointer or
//! allocation of its own. An id that a server has generated is stored as a number.

use crate::job::JobId;

/// Number of ids in an array. Growth never moves more ids than this.
const CHUNK: usize = 1024;

/// Bytes of a number.
const NUMBER: usize = size_of::<u64>();

/// A borrowed id, for lookups and comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRef<'a> {
    Number(u64),
    Text(&'a [u8]),
}

/// Place of an id: the length of its text (0 for a number), and its place among ids of this length.
pub type IdPlace = (u8, u32);

#[derive(Debug, Default)]
pub struct Ids {
    /// One entry for each length of a text; the first entry is for numbers.
    lengths: Vec<Length>,
}

#[derive(Debug, Default)]
struct Length {
    chunks: Vec<Vec<u8>>,
    /// Number of places, including free ones.
    places: u32,
    free: Vec<u32>,
}

impl<'a> From<&'a JobId> for IdRef<'a> {
    /// Converts the id to a number if it is exactly the decimal text of that number.
    fn from(id: &'a JobId) -> Self {
        let text = id.as_str();
        let starts_well = text.len() <= 19 && matches!(text.as_bytes()[0], b'1'..=b'9');
        match text.parse() {
            Ok(number) if starts_well => Self::Number(number),
            _ => Self::Text(text.as_bytes()),
        }
    }
}

impl IdRef<'_> {
    pub fn full(self) -> JobId {
        let mut digits = itoa::Buffer::new();
        let text = match self {
            Self::Number(number) => digits.format(number),
            Self::Text(text) => str::from_utf8(text).expect("it was a text before"),
        };
        text.parse().expect("it was a job's id before")
    }
}

impl Ids {
    pub fn add(&mut self, id: IdRef<'_>) -> IdPlace {
        match id {
            IdRef::Number(number) => self.add_bytes(0, &number.to_le_bytes()),
            IdRef::Text(text) => {
                let length = u8::try_from(text.len()).expect("an id has at most 128 bytes");
                self.add_bytes(length, text)
            }
        }
    }

    fn add_bytes(&mut self, length: u8, bytes: &[u8]) -> IdPlace {
        if self.lengths.len() <= length.into() {
            self.lengths.resize_with(usize::from(length) + 1, Length::default);
        }
        (length, self.lengths[usize::from(length)].add(bytes))
    }

    pub fn get(&self, (length, place): IdPlace) -> IdRef<'_> {
        let ids = &self.lengths[usize::from(length)];
        match length {
            0 => {
                let bytes = ids.get(place, NUMBER).try_into().expect("a number has 8 bytes");
                IdRef::Number(u64::from_le_bytes(bytes))
            }
            _ => IdRef::Text(ids.get(place, length.into())),
        }
    }

    pub fn remove(&mut self, (length, place): IdPlace) {
        self.lengths[usize::from(length)].free.push(place);
    }
}

impl Length {
    fn add(&mut self, bytes: &[u8]) -> u32 {
        if let Some(place) = self.free.pop() {
            let (chunk, at) = locate(place, bytes.len());
            self.chunks[chunk][at..at + bytes.len()].copy_from_slice(bytes);
            return place;
        }
        let place = self.places;
        self.places = place.checked_add(1).expect("fewer ids than 2^32 fit into memory");
        let (chunk, _) = locate(place, bytes.len());
        if self.chunks.len() == chunk {
            self.chunks.push(Vec::new());
        }
        self.chunks[chunk].extend_from_slice(bytes);
        place
    }

    fn get(&self, place: u32, length: usize) -> &[u8] {
        let (chunk, at) = locate(place, length);
        &self.chunks[chunk][at..at + length]
    }
}

/// Returns the chunk of a place, and the offset in it.
fn locate(place: u32, length: usize) -> (usize, usize) {
    let place = place as usize;
    (place / CHUNK, place % CHUNK * length)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_found_where_they_were_put(
            texts in prop::collection::vec(
                "[0-9]{1,25}|[A-Za-z0-9._:-]{1,128}|[1-9][0-9]{17,19}|[ab]{3}", 1..60),
            removals in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let (mut ids, mut places) = (Ids::default(), HashMap::new());
            let mut removals = removals.into_iter();
            for (n, text) in texts.iter().enumerate() {
                let Ok(id) = text.parse::<JobId>() else { continue };
                places.insert(n, (ids.add(IdRef::from(&id)), id));
                if n % 2 == 0
                    && let Some(gone) = removals.next()
                    && let Some((place, _)) = places.remove(&gone.index(n + 1))
                {
                    ids.remove(place);
                }
                for (place, id) in places.values() {
                    prop_assert_eq!(&ids.get(*place).full(), id);
                }
            }
        }
    }

    #[test]
    fn the_place_of_a_removed_id_is_used_again() {
        let id = |n: usize| IdRef::Number(n as u64);
        let mut ids = Ids::default();
        let places: Vec<IdPlace> = (0..3 * CHUNK).map(|n| ids.add(id(n))).collect();
        ids.remove(places[CHUNK]);
        assert_eq!(ids.add(id(7)), places[CHUNK]);
        assert_eq!(ids.get(places[CHUNK]), id(7));
        assert_eq!(ids.get(places[CHUNK + 1]), id(CHUNK + 1));
        assert_eq!(ids.lengths[0].chunks.len(), 3);
    }
}
