//! State that the timer shares with the rest of the process.

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

/// Deadlines for the timer, and the state of the timer for others.
pub struct TimerHandle {
    buckets: Vec<OfBucket>,
    nearer: Notify,
    /// When the store may last have received a deadline that this server does not know.
    doubted: Mutex<Option<Instant>>,
    last_round: Mutex<Instant>,
    /// Number of completed calls of the timer, and of failures, counted per bucket.
    passes: AtomicU64,
    failures: AtomicU64,
}

/// Value while the timer knows no deadline: any deadline wakes it.
const ANY: u64 = u64::MAX - 1;
/// Value while a call is running that returns the next deadline. Afterwards the timer takes
/// `reported`.
const ASKED: u64 = u64::MAX;

struct OfBucket {
    /// The next deadline that the timer knows, in Unix ms; or [`ANY`] or [`ASKED`].
    sleeps_until: AtomicU64,
    /// The earliest deadline that the timer has not taken yet, in Unix ms; `u64::MAX` if there is
    /// none.
    reported: AtomicU64,
    /// When another server last announced a poll.
    polled_elsewhere: Mutex<Option<Instant>>,
    /// When the running call of the timer began.
    busy_since: Mutex<Option<Instant>>,
    /// Whether the last call ended in an error of the store.
    failing: AtomicBool,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no thread panics while holding this lock")
}

impl TimerHandle {
    pub fn new(buckets: Buckets) -> Self {
        let of_bucket = |_| OfBucket {
            sleeps_until: AtomicU64::new(ANY),
            reported: AtomicU64::new(u64::MAX),
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

    /// Reports a deadline in the store, and wakes the timer if it knows only later ones.
    pub fn wake_by(&self, bucket: Bucket, deadline: UnixMillis) {
        let bucket = self.of(bucket);
        if deadline.get() < bucket.sleeps_until.load(Ordering::SeqCst) {
            bucket.reported.fetch_min(deadline.get(), Ordering::SeqCst);
            // Reads again, because the timer may have taken `reported` just before, at the end of a
            // call.
            if bucket.sleeps_until.load(Ordering::SeqCst) != ASKED {
                self.nearer.notify_one();
            }
        }
    }

    /// Records that the store may have, or may later get, a deadline that this server does not
    /// know, because the outcome of a call is unknown, or another server uses the store.
    pub fn doubt(&self) {
        *lock(&self.doubted) = Some(Instant::now());
    }

    /// Returns whether such a deadline may still appear.
    pub fn is_in_doubt(&self) -> bool {
        lock(&self.doubted).is_some_and(|at| at.elapsed() < LATE_CALL)
    }

    /// Takes the earliest reported deadline; from now on any deadline wakes the timer.
    pub fn take_reported(&self, bucket: Bucket) -> Option<UnixMillis> {
        let bucket = self.of(bucket);
        bucket.sleeps_until.store(ANY, Ordering::SeqCst);
        let reported = bucket.reported.swap(u64::MAX, Ordering::SeqCst);
        (reported < u64::MAX).then(|| UnixMillis::new(reported))
    }

    #[cfg(test)]
    pub fn knows_a_deadline(&self, bucket: Bucket) -> bool {
        self.of(bucket).sleeps_until.load(Ordering::SeqCst) < ANY
    }

    pub fn polled_elsewhere(&self, bucket: Bucket) {
        *lock(&self.of(bucket).polled_elsewhere) = Some(Instant::now());
    }

    pub fn last_poll_elsewhere(&self, bucket: Bucket) -> Option<Instant> {
        *lock(&self.of(bucket).polled_elsewhere)
    }

    pub fn awake(&self) {
        *lock(&self.last_round) = Instant::now();
    }

    /// Sets the next deadline that the timer knows; an earlier one wakes it.
    pub fn sleeps_until(&self, bucket: Bucket, deadline: Option<UnixMillis>) {
        let deadline = deadline.map_or(ANY, UnixMillis::get);
        self.of(bucket).sleeps_until.store(deadline, Ordering::SeqCst);
    }

    pub async fn woken(&self) {
        self.nearer.notified().await;
    }

    /// Records the start of a call that returns the next deadline.
    pub fn began(&self, bucket: Bucket) {
        let bucket = self.of(bucket);
        *lock(&bucket.busy_since) = Some(Instant::now());
        bucket.sleeps_until.store(ASKED, Ordering::SeqCst);
    }

    /// Records the end of the call.
    pub fn ended(&self, bucket: Bucket) {
        *lock(&self.of(bucket).busy_since) = None;
    }

    pub fn passed(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of completed calls and of failures, counted per bucket.
    pub fn passes(&self) -> (u64, u64) {
        (self.passes.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    pub fn succeeded(&self, bucket: Bucket) {
        self.of(bucket).failing.store(false, Ordering::Relaxed);
    }

    /// Records a failure. Returns whether the previous call had failed too.
    pub fn failed(&self, bucket: Bucket) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.of(bucket).failing.swap(true, Ordering::Relaxed)
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the indexes of buckets whose last call of the timer failed.
    pub fn failing(&self) -> Vec<usize> {
        let is_failing = |&bucket: &usize| self.buckets[bucket].failing.load(Ordering::Relaxed);
        (0..self.buckets.len()).filter(is_failing).collect()
    }

    /// Returns the index of a bucket without progress for `limit`, and without a failed call.
    pub fn stuck(&self, limit: Duration) -> Option<usize> {
        let all = lock(&self.last_round).elapsed() > limit;
        self.buckets.iter().position(|bucket| {
            let busy = lock(&bucket.busy_since).is_some_and(|since| since.elapsed() > limit);
            (all || busy) && !bucket.failing.load(Ordering::Relaxed)
        })
    }
}
