//! What the timer shares with the rest of the process.

use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::job::{Bucket, Buckets, UnixMillis};
use crate::queue::batching::LATE_CALL;

/// Tells the timer of deadlines, and others how it is.
pub struct TimerHandle {
    buckets: Vec<OfBucket>,
    nearer: Notify,
    /// When the store last may have got a deadline that nothing tells of.
    doubted: Mutex<Option<Instant>>,
    last_round: Mutex<Instant>,
    /// Calls that the timer has made, and how often one failed at a bucket.
    passes: AtomicU64,
    failures: AtomicU64,
}

/// The timer knows of no deadline: any one wakes it.
const ANY: u64 = u64::MAX - 1;
/// It asks the store. When it has the answer it takes what it was told meanwhile.
const ASKED: u64 = u64::MAX;

struct OfBucket {
    /// The next deadline that the timer knows of, in Unix ms; [`ANY`] or [`ASKED`].
    sleeps_until: AtomicU64,
    /// The earliest deadline that the timer was told of since it last asked, in Unix ms; the greatest
    /// number if there was none.
    told: AtomicU64,
    /// When another server published that it had polled.
    polled_elsewhere: Mutex<Option<Instant>>,
    /// Since when a call of the timer is under way.
    busy_since: Mutex<Option<Instant>>,
    /// The last call ended in an error of the store.
    failing: AtomicBool,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no thread panics while holding this lock")
}

impl TimerHandle {
    pub fn new(buckets: Buckets) -> Self {
        let of_bucket = |_| OfBucket {
            sleeps_until: AtomicU64::new(ANY),
            told: AtomicU64::new(u64::MAX),
            polled_elsewhere: Mutex::default(),
            busy_since: Mutex::default(),
            failing: AtomicBool::new(false),
        };
        Self {
            buckets: buckets.all().map(of_bucket).collect(),
            nearer: Notify::new(),
            doubted: Mutex::default(),
            last_round: Mutex::new(Instant::now()),
            passes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    fn of(&self, bucket: Bucket) -> &OfBucket {
        &self.buckets[bucket.index()]
    }

    /// Tells the timer of a deadline that the store has; wakes it if that is nearer than what it
    /// knows of.
    pub fn wake_by(&self, bucket: Bucket, deadline: UnixMillis) {
        let bucket = self.of(bucket);
        if deadline.get() < bucket.sleeps_until.load(Ordering::SeqCst) {
            bucket.told.fetch_min(deadline.get(), Ordering::SeqCst);
            // Read again: it may have the answer since, and have taken what it was told before this.
            if bucket.sleeps_until.load(Ordering::SeqCst) != ASKED {
                self.nearer.notify_one();
            }
        }
    }

    /// Notes that the store may have a deadline, or get one later, that nothing tells of: a call here
    /// ended unknown, or another server works on it.
    pub fn doubt(&self) {
        *lock(&self.doubted) = Some(Instant::now());
    }

    /// Whether such a deadline may still come.
    pub fn is_in_doubt(&self) -> bool {
        lock(&self.doubted).is_some_and(|at| at.elapsed() < LATE_CALL)
    }

    /// The earliest deadline told of since the last call. From here on any deadline wakes.
    pub fn take_told(&self, bucket: Bucket) -> Option<UnixMillis> {
        let bucket = self.of(bucket);
        bucket.sleeps_until.store(ANY, Ordering::SeqCst);
        let told = bucket.told.swap(u64::MAX, Ordering::SeqCst);
        (told < u64::MAX).then(|| UnixMillis::new(told))
    }

    #[cfg(test)]
    pub fn knows_a_deadline(&self, bucket: Bucket) -> bool {
        self.of(bucket).sleeps_until.load(Ordering::SeqCst) < ANY
    }

    /// Another server's timer has looked into the bucket.
    pub fn polled_elsewhere(&self, bucket: Bucket) {
        *lock(&self.of(bucket).polled_elsewhere) = Some(Instant::now());
    }

    pub fn last_poll_elsewhere(&self, bucket: Bucket) -> Option<Instant> {
        *lock(&self.of(bucket).polled_elsewhere)
    }

    /// The timer works.
    pub fn awake(&self) {
        *lock(&self.last_round) = Instant::now();
    }

    /// The next deadline of the bucket that the timer knows of; a nearer one wakes it.
    pub fn sleeps_until(&self, bucket: Bucket, deadline: Option<UnixMillis>) {
        let deadline = deadline.map_or(ANY, UnixMillis::get);
        self.of(bucket).sleeps_until.store(deadline, Ordering::SeqCst);
    }

    /// Completes when the timer must be awake.
    pub async fn woken(&self) {
        self.nearer.notified().await;
    }

    /// The timer asks the store what is next.
    pub fn began(&self, bucket: Bucket) {
        let bucket = self.of(bucket);
        *lock(&bucket.busy_since) = Some(Instant::now());
        bucket.sleeps_until.store(ASKED, Ordering::SeqCst);
    }

    /// It has the answer.
    pub fn ended(&self, bucket: Bucket) {
        *lock(&self.of(bucket).busy_since) = None;
    }

    /// A call has ended.
    pub fn passed(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls have ended, and how often one failed at a bucket.
    pub fn passes(&self) -> (u64, u64) {
        (self.passes.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    pub fn succeeded(&self, bucket: Bucket) {
        self.of(bucket).failing.store(false, Ordering::Relaxed);
    }

    /// Whether the call before had failed as well.
    pub fn failed(&self, bucket: Bucket) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.of(bucket).failing.swap(true, Ordering::Relaxed)
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Numbers of buckets where the store refused the timer when it last tried.
    pub fn failing(&self) -> Vec<usize> {
        let is_failing = |&bucket: &usize| self.buckets[bucket].failing.load(Ordering::Relaxed);
        (0..self.buckets.len()).filter(is_failing).collect()
    }

    /// The number of a bucket where the timer has not moved for so long, though the store did not
    /// refuse it.
    pub fn stuck(&self, limit: Duration) -> Option<usize> {
        let all = lock(&self.last_round).elapsed() > limit;
        self.buckets.iter().position(|bucket| {
            let busy = lock(&bucket.busy_since).is_some_and(|since| since.elapsed() > limit);
            (all || busy) && !bucket.failing.load(Ordering::Relaxed)
        })
    }
}
