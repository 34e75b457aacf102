use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn key(number: u32) -> IndexKey {
    let rank =
        Rank::new(State::Delayed, Priority::STANDARD, UnixMillis::new(u64::from(number / 4)));
    IndexKey::new(rank, number % 4, number)
}

/// Checks that the set has the same keys as a plain one, and is well formed.
fn check(keys: &Keys, model: &BTreeSet<IndexKey>, bounds: &[u32]) {
    assert!(keys.iter().eq(model.iter().copied()));
    assert_eq!((keys.len(), keys.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(keys.first(), model.first().copied());
    for (bound, chunk) in &keys.chunks {
        assert!(*bound <= chunk[0] && chunk.len() <= CHUNK, "{bound:?} {chunk:?}");
        assert!(chunk.capacity() <= chunk.len() + 2 * GROWTH, "{}", chunk.capacity());
    }
    for from in bounds.iter().map(|number| key(*number)) {
        let same = |from: Bound<IndexKey>| {
            keys.range_from(from).eq(model.range((from, Bound::Unbounded)).copied())
        };
        assert!(same(Bound::Included(from)) && same(Bound::Excluded(from)), "{from:?}");
        for begin in [Bound::Included(from), Bound::Excluded(from), Bound::Unbounded] {
            for end in bounds.iter().map(|number| key(*number)) {
                let all = keys.range_from(begin).take_while(|key| *key < end).count();
                assert_eq!(keys.count(begin, end), all, "{begin:?} {end:?}");
            }
            for n in [0, 1, 127, 128, 129, 500] {
                assert_eq!(keys.nth(begin, n), keys.range_from(begin).nth(n), "{begin:?} {n}");
            }
        }
    }
    assert!(keys.range_from(Bound::Unbounded).eq(keys.iter()));
}

proptest! {
    #[test]
    fn a_set_of_chunks_is_a_sorted_set(
        loaded in prop::collection::btree_set(0..2_000_u32, 0..1_000),
        changes in prop::collection::vec((0..2_000_u32, 0..300_u32, any::<bool>()), 0..20),
        bounds in prop::collection::vec(0..2_000_u32, 5),
    ) {
        let mut model: BTreeSet<IndexKey> = loaded.iter().copied().map(key).collect();
        let mut keys = Keys::from(loaded.into_iter().rev().map(key).collect::<Vec<_>>());
        check(&keys, &model, &bounds);
        for (first, count, adds) in changes {
            for key in (first..first + count).map(key) {
                if !adds {
                    model.remove(&key);
                    keys.remove(key);
                } else if model.insert(key) {
                    keys.insert(key);
                }
            }
            check(&keys, &model, &bounds);
        }
    }
}

#[test]
fn ready_jobs_are_ordered_by_priority_and_then_by_time() {
    let key = |priority, at| {
        let rank = Rank::new(State::Ready, priority, UnixMillis::new(at));
        IndexKey::new(rank, 0, 0)
    };
    let mut keys = Vec::new();
    for priority in Priority::from_highest() {
        for at in [0, 1_800_000_000_000, UnixMillis::LAST.get()] {
            let key = key(priority, at);
            assert_eq!(
                (key.at().get(), key.rank() < Rank::end(State::Ready, priority)),
                (at, true)
            );
            assert_eq!(IndexKey::parse(State::Ready, key.at(), &key.tie()), Some(key));
            keys.push(key);
        }
    }
    assert!(keys.is_sorted());
}

#[test]
fn keys_that_come_in_order_fill_their_chunks() {
    let mut keys = Keys::default();
    (0..100 * CHUNK as u32).map(key).for_each(|key| keys.insert(key));
    assert_eq!(keys.chunks.len(), 100);
}
