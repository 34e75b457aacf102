//! Whose turn it is, among buckets that are all as good.
//!
//! Jobs without an id of their own may go to any bucket, and a pop may begin with any that has
//! jobs. Requests that come at the same time should then choose the same one: they meet in its
//! coalescer and share a call. So a bucket keeps its turn for a stretch of jobs, and then it is
//! the next one's; over time all have the same share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::{Bucket, Buckets};

/// How many jobs a bucket's turn lasts.
pub const JOBS_PER_BUCKET: u64 = 64;
/// Parts into which the buckets are cut. A made id is found by trying, as many times as there
/// are parts; so with more buckets than this, a turn is that of some neighbours.
const PARTS: u16 = 16;

/// Counts jobs.
#[derive(Debug, Default)]
pub struct StickyBucket(AtomicU64);

/// The buckets whose turn it is.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    index: usize,
    width: usize,
}

impl StickyBucket {
    /// Where so many jobs should go, together.
    pub fn take(&self, jobs: usize, buckets: Buckets) -> Part {
        // No step is longer than a turn, or some bucket's might be stepped over every time.
        let before = self.0.fetch_add((jobs as u64).min(JOBS_PER_BUCKET), Ordering::Relaxed);
        let width = usize::from(buckets.get().div_ceil(PARTS));
        let parts = usize::from(buckets.get()).div_ceil(width);
        Part { index: stretches(before) % parts, width }
    }
}

impl Part {
    pub fn has(self, bucket: Bucket) -> bool {
        bucket.index() / self.width == self.index
    }
}

/// How many turns so many jobs have taken.
pub fn stretches(jobs: u64) -> usize {
    usize::try_from(jobs / JOBS_PER_BUCKET).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_its_turn_and_none_two() {
        for count in [1, 3, 16, 17, 100, 1024] {
            let buckets = Buckets::try_from(count).expect("a number of buckets");
            let sticky = StickyBucket::default();
            let mut turns = vec![0; usize::from(count)];
            let parts = usize::from(count.div_ceil(count.div_ceil(PARTS)));
            for _ in 0..parts {
                let part = sticky.take(JOBS_PER_BUCKET as usize, buckets);
                for bucket in buckets.all().filter(|&bucket| part.has(bucket)) {
                    turns[bucket.index()] += 1;
                }
            }
            assert!(turns.iter().all(|&n| n == 1), "{count}: {turns:?}");
        }
    }
}
