//! Which of several servers acts on the ended TTRs of a bucket. If all did, each would load all
//! jobs, and most of these loads would be in vain.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::job::{Bucket, JobId, UnixMillis};

/// How much later than the server whose share a bucket is the others act on ends of TTRs and
/// retentions, and on expiries.
const LAG: Duration = Duration::from_millis(300);

/// A server that finds this many jobs looks whether the one whose share they are makes progress.
const MANY: usize = 100;

/// The backlogs that this server has left to others, by bucket.
#[derive(Default)]
pub struct Backlogs(Mutex<HashMap<Bucket, Left>>);

struct Left {
    /// The earliest of the jobs.
    first: JobId,
    at: Instant,
    /// The lag, in milliseconds, with which this server does not find them for a while.
    lag: u64,
}

impl Backlogs {
    /// Returns how much later than its owner this server acts on a bucket, in milliseconds.
    pub fn lag(&self, bucket: Bucket) -> u64 {
        lag_of(self.lock().get(&bucket))
    }

    /// Returns whether to leave jobs to the owner of the bucket: they are many, and the earliest is
    /// another one than at the last look. `next` is the deadline of their set, with the lag.
    pub fn leave(
        &self,
        bucket: Bucket,
        (first, count): (&JobId, usize),
        next: UnixMillis,
        now: UnixMillis,
    ) -> bool {
        let mut all = self.lock();
        let last = all.remove(&bucket);
        let late = (now.get() + lag_of(last.as_ref())).saturating_sub(next.get());
        let is_left = count >= MANY && last.is_none_or(|last| last.first != *first);
        if is_left {
            let lag = late.saturating_add(millis(LAG));
            all.insert(bucket, Left { first: first.clone(), at: Instant::now(), lag });
        }
        is_left
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bucket, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lag_of(left: Option<&Left>) -> u64 {
    left.filter(|left| left.at.elapsed() < LAG).map_or(millis(LAG), |left| left.lag)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_are_left_to_a_server_that_makes_progress() {
        let (backlogs, bucket) = (Backlogs::default(), Bucket::FIRST);
        let [a, b] = ["a", "b"].map(|name| name.parse().expect("an id"));
        let leave = |first, count, next, now| {
            backlogs.leave(bucket, (first, count), UnixMillis::new(next), UnixMillis::new(now))
        };
        // Their deadline is 1,000, so their next one is 1,300.
        assert!(!leave(&a, 1, 1_300, 1_300), "few jobs are no backlog");
        assert_eq!(backlogs.lag(bucket), 300);
        assert!(leave(&a, 250, 1_300, 1_900));
        assert_eq!(backlogs.lag(bucket), 1_200);
        assert!(leave(&b, 250, 2_200, 2_300), "the owner makes progress");
        assert_eq!(backlogs.lag(bucket), 1_600);
        assert!(!leave(&b, 250, 2_600, 2_700), "the owner has fallen silent");
        assert_eq!(backlogs.lag(bucket), 300);
    }
}
