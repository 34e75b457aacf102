//! Which bucket requests share when any bucket would do.
//!
//! Jobs without an id of their own may go to any bucket, and a pop may begin with any bucket that has
//! jobs. Concurrent requests should choose the same one, so that its coalescer merges them into one
//! call. So [`JOBS_PER_BUCKET`] jobs in a row go to one bucket, the next ones to the bucket after it;
//! over time all buckets get the same share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::{Bucket, Buckets};

/// How many jobs in a row go to one bucket.
pub const JOBS_PER_BUCKET: u64 = 64;
/// Parts into which the buckets are cut. An id for a job is generated until it falls into the chosen
/// part, which takes as many tries as there are parts; so with more buckets than this, a part is several
/// neighbouring buckets.
const PARTS: u16 = 16;

/// Counts jobs.
#[derive(Debug, Default)]
pub struct StickyBucket(AtomicU64);

/// The buckets that are chosen now.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    index: usize,
    width: usize,
}

impl StickyBucket {
    /// Where these jobs should go, all together.
    pub fn take(&self, jobs: usize, buckets: Buckets) -> Part {
        // At most one part further, or large batches would skip the same buckets every time.
        let before = self.0.fetch_add((jobs as u64).min(JOBS_PER_BUCKET), Ordering::Relaxed);
        let width = usize::from(buckets.get().div_ceil(PARTS));
        let parts = usize::from(buckets.get()).div_ceil(width);
        Part { index: buckets_filled(before) % parts, width }
    }
}

impl Part {
    pub fn has(self, bucket: Bucket) -> bool {
        bucket.index() / self.width == self.index
    }
}

/// How many buckets in a row so many jobs have filled.
pub fn buckets_filled(jobs: u64) -> usize {
    usize::try_from(jobs / JOBS_PER_BUCKET).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_chosen_once_before_any_is_chosen_again() {
        for count in [1, 3, 16, 17, 100, 1024] {
            let buckets = Buckets::try_from(count).expect("a number of buckets");
            let sticky = StickyBucket::default();
            let mut chosen = vec![0; usize::from(count)];
            let parts = usize::from(count.div_ceil(count.div_ceil(PARTS)));
            for _ in 0..parts {
                let part = sticky.take(JOBS_PER_BUCKET as usize, buckets);
                for bucket in buckets.all().filter(|&bucket| part.has(bucket)) {
                    chosen[bucket.index()] += 1;
                }
            }
            assert!(chosen.iter().all(|&n| n == 1), "{count}: {chosen:?}");
        }
    }
}
