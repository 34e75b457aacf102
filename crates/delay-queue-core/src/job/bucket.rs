//! The buckets of a store, and the bucket of each job.

use std::num::NonZeroU16;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::id::JobId;

/// The hash that distributes ids over buckets, as written into a store at its first start. Must
/// stay stable: with another hash, jobs would be looked up in the wrong bucket.
pub const HASH_NAME: &str = "xxh3-64";

/// More buckets would only add work for the timers.
const MAX_BUCKETS: u16 = 1024;

/// The number of buckets of a store: 1 to 1,024, fixed at its first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets(NonZeroU16);

/// The number of a bucket, from 0, below the [`Buckets`] of its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// The first bucket, which every store has.
    pub const FIRST: Self = Self(0);
}

/// A number of buckets outside the limits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be a number of buckets from 1 to {MAX_BUCKETS}, got {0}")]
pub struct BucketsError(u16);

impl Buckets {
    /// The default of a new store in a file or on one Redis.
    pub const ONE: Self = Self(NonZeroU16::MIN);
    /// The default of a new store on a small cluster.
    pub const SIXTEEN: Self = Self(NonZeroU16::MIN.saturating_add(15));
    /// The default of a new store on a cluster of more than three masters.
    pub const SIXTY_FOUR: Self = Self(NonZeroU16::MIN.saturating_add(63));
    /// The default of a new store on a cluster of more than twelve masters.
    pub const TWO_HUNDRED_FIFTY_SIX: Self = Self(NonZeroU16::MIN.saturating_add(255));

    /// Returns the number of buckets.
    pub fn get(self) -> u16 {
        self.0.get()
    }

    /// Returns every bucket, in order.
    pub fn all(self) -> impl ExactSizeIterator<Item = Bucket> + Clone {
        (0..self.get()).map(Bucket)
    }

    /// Returns the bucket of `id`: `xxh3_64(id) mod N`.
    pub fn of(self, id: &JobId) -> Bucket {
        let bucket = xxh3_64(id.as_str().as_bytes()) % u64::from(self.get());
        Bucket(u16::try_from(bucket).expect("a remainder is below its 16-bit divisor"))
    }
}

impl TryFrom<u16> for Buckets {
    type Error = BucketsError;

    fn try_from(count: u16) -> Result<Self, BucketsError> {
        match NonZeroU16::new(count) {
            Some(n) if count <= MAX_BUCKETS => Ok(Self(n)),
            _ => Err(BucketsError(count)),
        }
    }
}

impl Bucket {
    /// Returns the number of the bucket, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_pinned_since_stored_jobs_depend_on_it() {
        let buckets = Buckets::try_from(16).expect("16 is a fine number of buckets");
        let bucket = |text: &str| buckets.of(&text.parse().expect("an id")).index();
        assert_eq!(["order-1", "order-2", "a", "9223372036854775807"].map(bucket), PINNED);
    }

    const PINNED: [usize; 4] = [6, 12, 15, 3];

    #[test]
    fn too_few_and_too_many_buckets_are_refused() {
        for count in [0, 1025, u16::MAX] {
            assert_eq!(Buckets::try_from(count), Err(BucketsError(count)));
        }
    }
}
