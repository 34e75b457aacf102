//! Choice of a bucket that concurrent requests share, where any bucket may be used.
//!
//! A job without an id may go to any bucket, and a pop may begin with any bucket that has jobs.
//! Concurrent requests should choose the same bucket, so that its coalescer merges them into one
//! call. Therefore [`JOBS_PER_BUCKET`] jobs in a row go to one bucket, and the next jobs to the
//! following one. Over time all buckets get the same share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::job::{Bucket, Buckets};

/// Number of consecutive jobs that go to one bucket.
pub const JOBS_PER_BUCKET: u64 = 64;
/// Number of parts into which the buckets are divided. For a job without an id, the server
/// generates ids until one falls into the chosen part. On average this takes as many attempts as
/// there are parts. If there are more buckets than parts, a part is several neighbouring buckets.
const PARTS: u16 = 16;

/// Counter of jobs, from which the current part follows.
#[derive(Debug, Default)]
pub struct StickyBucket(AtomicU64);

/// The currently chosen part of the buckets.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    index: usize,
    width: usize,
}

impl StickyBucket {
    /// Counts `jobs` and returns the part that all of them should go to.
    pub fn take(&self, jobs: usize, buckets: Buckets) -> Part {
        // Advances by at most one part; otherwise large batches would always skip the same buckets.
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

/// Returns the number of buckets that `jobs` jobs in a row have filled.
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
