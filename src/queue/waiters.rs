//! Waiting pops by topic, and marks of the buckets that may have jobs for them.
//!
//! Both exist only in this process. A mark is only an estimate of the number of jobs in a bucket
//! and of their highest priority. Pops begin with the bucket of the highest priority. A pop claims
//! jobs from a mark before it takes them, so that other pops try other buckets. The store then
//! reports the number of jobs that are left. The mark is set to this number, unless a hint has
//! changed the mark in the meantime. A lost hint costs time, but never a job: the timer polls every
//! bucket for the topics kept here at least every `timer.poll_interval`. A topic is kept while a
//! consumer waits for it, and for a short time after the last consumer has left. So consumers that
//! poll in a loop find their marks. After that time the topic is dropped, and its next pop polls
//! every bucket.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::select_all;
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    time::Instant,
};

use crate::queue::batching::sticky::{JOBS_PER_BUCKET, buckets_filled};
use crate::{
    job::{Bucket, Buckets, Priority, Topic},
    store::{Hint, ReadyJobs},
};

/// Maximum number of ready sets that a poll reads, over all buckets. Redis takes about 20 ms for
/// them. If consumers wait for more topics, each poll reads another part of them.
const MAX_LISTS_PER_POLL: usize = 65_536;
/// Minimum number of topics that a poll reads per bucket, for any number of buckets.
const MIN_TOPICS_PER_POLL: usize = 128;
/// How long a topic without waiting consumers is kept, unless there are over [`MAX_KEPT`] topics.
const KEPT_FOR: Duration = Duration::from_secs(2);
const MAX_KEPT: usize = 10_000;

pub struct Waiters {
    buckets: Buckets,
    pops: AtomicUsize,
    topics: Mutex<HashMap<Topic, Entry>>,
    publish: Publish,
}

pub type Publish = Box<dyn Fn(Hint) + Send + Sync>;

/// A topic with waiting consumers, or one whose last consumer left recently.
struct Entry {
    /// Indexed by bucket.
    marks: Box<[Mark]>,
    /// Indexed by bucket: the highest priority of jobs that became ready through this server and
    /// were not announced to other servers, because consumers wait for them here. `None` if there
    /// are no such jobs.
    unannounced: Box<[Option<Priority>]>,
    last_mark: u64,
    /// Number of jobs requested so far, plus a random start. It determines the bucket with which
    /// claims begin.
    asked: u64,
    waiting: usize,
    left_at: Instant,
    marked: Arc<Notify>,
}

#[derive(Clone, Copy, Default)]
struct Mark {
    /// Ready jobs that no pop has claimed.
    jobs: ReadyJobs,
    /// Number of the hint that last changed this mark.
    number: u64,
}

/// Registration of one pop for its topics, until dropped.
pub struct Registration<'a> {
    waiters: &'a Waiters,
    topics: Vec<(Topic, Arc<Notify>)>,
}

impl Waiters {
    pub fn new(buckets: Buckets, publish: Publish) -> Self {
        Self { buckets, pops: AtomicUsize::new(0), topics: Mutex::default(), publish }
    }

    /// Marks jobs that became ready through this server. Informs other servers if fewer consumers
    /// than jobs wait here.
    pub fn ready(&self, topic: &Topic, bucket: Bucket, jobs: ReadyJobs) {
        let left = self.mark(topic, bucket, jobs);
        if left > 0 {
            let left = ReadyJobs { count: left, ..jobs };
            (self.publish)(Hint::Ready { bucket, topic: topic.clone(), jobs: left });
        }
        if left < jobs.count
            && let Some(entry) = self.lock().get_mut(topic)
        {
            let unannounced = &mut entry.unannounced[bucket.index()];
            *unannounced = (*unannounced).max(Some(jobs.highest));
        }
    }

    /// Records that jobs of `topic` are ready in `bucket`, and wakes as many waiting pops. Returns
    /// the number of jobs without a waiting pop. Does not mark topics without consumers here,
    /// because their first pop polls every bucket.
    pub fn mark(&self, topic: &Topic, bucket: Bucket, jobs: ReadyJobs) -> u64 {
        let mut topics = self.lock();
        let Some(entry) = topics.get_mut(topic) else { return jobs.count };
        entry.add(bucket, jobs);
        jobs.count - entry.wake(jobs.count)
    }

    /// Marks the jobs of each topic that a poll of `bucket` has found.
    pub fn found(&self, bucket: Bucket, topics: &[Topic], ready: &[ReadyJobs]) {
        for (topic, &ready) in topics.iter().zip(ready).filter(|(_, ready)| ready.count > 0) {
            self.mark(topic, bucket, ready);
        }
    }

    /// Claims up to `count` jobs of `topic`, jobs of the highest priority first. Among equal
    /// priorities, it begins with the sticky bucket. Returns the jobs of each bucket.
    pub fn claim(&self, topic: &Topic, count: u16) -> Vec<(Bucket, ReadyJobs)> {
        let mut topics = self.lock();
        let Some(entry) = topics.get_mut(topic) else { return Vec::new() };
        let all = usize::from(self.buckets.get());
        let sticky = buckets_filled(entry.asked) % all;
        let buckets = self.buckets.all().cycle().skip(sticky).take(all);
        let mut marked: Vec<Bucket> =
            buckets.filter(|bucket| entry.marks[bucket.index()].jobs.count > 0).collect();
        // The sort is stable, so buckets of the same priority keep their rotation.
        marked.sort_by_key(|bucket| Reverse(entry.marks[bucket.index()].jobs.highest));
        let (mut claims, mut rest) = (Vec::new(), u64::from(count));
        for bucket in marked {
            let jobs = &mut entry.marks[bucket.index()].jobs;
            let own = jobs.count.min(rest);
            jobs.count -= own;
            rest -= own;
            claims.push((bucket, ReadyJobs { count: own, ..*jobs }));
            if rest == 0 {
                break;
            }
        }
        if !claims.is_empty() {
            entry.asked += u64::from(count).min(JOBS_PER_BUCKET);
        }
        claims
    }

    /// Returns the numbers of the last hints for topics in a bucket, for
    /// [`note_left`](Self::note_left).
    pub fn last_marks<'a>(&self, bucket: Bucket, of: impl Iterator<Item = &'a Topic>) -> Vec<u64> {
        let topics = self.lock();
        let number =
            |topic| topics.get(topic).map_or(0, |e: &Entry| e.marks[bucket.index()].number);
        of.map(number).collect()
    }

    /// Sets the mark to `count`, the number of jobs that a pop has left in the bucket, and to the
    /// priority of the last job that it popped, if any, because no remaining job has a higher one.
    /// If a hint later than number `since` has changed the mark, keeps the larger numbers. Wakes up
    /// to `count` waiting pops.
    pub fn note_left(
        &self,
        topic: &Topic,
        bucket: Bucket,
        since: u64,
        (count, last): (u64, Option<Priority>),
    ) {
        let mut topics = self.lock();
        let Some(entry) = topics.get_mut(topic) else { return };
        let Mark { jobs, number } = &mut entry.marks[bucket.index()];
        if *number == since {
            *jobs = ReadyJobs { count, highest: last.unwrap_or(jobs.highest) };
        } else {
            jobs.count = jobs.count.max(count);
        }
        if jobs.count == 0 {
            entry.unannounced[bucket.index()] = None;
        }
        entry.wake(count);
        if entry.is_idle() {
            topics.remove(topic);
        }
    }

    pub fn unmark(&self, topic: &Topic, bucket: Bucket) {
        let since = self.last_marks(bucket, std::iter::once(topic));
        since.into_iter().for_each(|since| self.note_left(topic, bucket, since, (0, None)));
    }

    /// Returns topics without a mark in `bucket`, for which a poll should look. If there are too
    /// many, each call continues at `cursor`. Drops topics that no consumer has popped from
    /// recently.
    pub fn unmarked_in(&self, bucket: Bucket, cursor: &mut usize) -> Vec<Topic> {
        let mut topics = self.lock();
        topics.retain(|_, entry| entry.waiting > 0 || entry.left_at.elapsed() < KEPT_FOR);
        let unknown: Vec<&Topic> = topics
            .iter()
            .filter(|(_, entry)| entry.marks[bucket.index()].jobs.count == 0)
            .map(|(topic, _)| topic)
            .collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        let count = unknown.len().min(self.topics_of_a_poll());
        let first = *cursor % unknown.len();
        *cursor = first + count;
        unknown.into_iter().cycle().skip(first).take(count).cloned().collect()
    }

    fn topics_of_a_poll(&self) -> usize {
        (MAX_LISTS_PER_POLL / usize::from(self.buckets.get())).max(MIN_TOPICS_PER_POLL)
    }

    pub fn register(&self, topics: &[Topic]) -> Registration<'_> {
        let mut entries = self.lock();
        let mut place = |topic: &Topic| {
            let entry = self.entry(&mut entries, topic);
            entry.waiting += 1;
            (topic.clone(), Arc::clone(&entry.marked))
        };
        self.pops.fetch_add(1, Ordering::Relaxed);
        Registration { waiters: self, topics: topics.iter().map(&mut place).collect() }
    }

    /// Returns the number of pops that look for jobs or wait for them.
    pub fn pops(&self) -> usize {
        self.pops.load(Ordering::Relaxed)
    }

    fn entry<'a>(&self, topics: &'a mut HashMap<Topic, Entry>, topic: &Topic) -> &'a mut Entry {
        if !topics.contains_key(topic) {
            let marks = vec![Mark::default(); self.buckets.get().into()].into_boxed_slice();
            let unannounced = vec![None; usize::from(self.buckets.get())].into_boxed_slice();
            // Begins with a random bucket. Otherwise the first pops of rarely popped topics would
            // all begin with the same bucket.
            let asked = u64::from(rand::random::<u16>()) * JOBS_PER_BUCKET;
            let (left_at, marked) = (Instant::now(), Arc::default());
            let entry =
                Entry { marks, unannounced, last_mark: 0, asked, waiting: 0, left_at, marked };
            topics.insert(topic.clone(), entry);
        }
        topics.get_mut(topic).expect("it was there or has just been inserted")
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Entry>> {
        self.topics.lock().expect("no thread panics while holding this lock")
    }
}

impl Entry {
    fn add(&mut self, bucket: Bucket, jobs: ReadyJobs) {
        self.last_mark += 1;
        let mark = &mut self.marks[bucket.index()];
        let known = if mark.jobs.count > 0 { mark.jobs } else { ReadyJobs::NONE };
        *mark = Mark { jobs: known.plus(jobs), number: self.last_mark };
    }

    /// Wakes at most one waiting pop per job; returns the number of woken pops.
    fn wake(&self, jobs: u64) -> u64 {
        let woken = jobs.min(self.waiting as u64);
        (0..woken).for_each(|_| self.marked.notify_one());
        woken
    }

    fn is_idle(&self) -> bool {
        self.waiting == 0 && !self.has_marks()
    }

    fn has_marks(&self) -> bool {
        self.marks.iter().any(|mark| mark.jobs.count > 0)
    }
}

impl Registration<'_> {
    /// Completes when one of the topics is marked after this call, even before the future is first
    /// polled. So call this first, then look for jobs, then wait.
    pub fn marked(&self) -> impl Future<Output = ()> + use<> {
        let enabled = |(_, marked): &(Topic, Arc<Notify>)| {
            let mut notified: std::pin::Pin<Box<OwnedNotified>> =
                Box::pin(Arc::clone(marked).notified_owned());
            notified.as_mut().enable();
            notified
        };
        let all: Vec<_> = self.topics.iter().map(enabled).collect();
        async move { drop(select_all(all).await) }
    }
}

impl Drop for Registration<'_> {
    /// Passes on wake-ups that this pop has received and not used: to other pops here, or to other
    /// servers if this was the last pop here.
    fn drop(&mut self) {
        self.waiters.pops.fetch_sub(1, Ordering::Relaxed);
        let mut left = Vec::new();
        let mut topics = self.waiters.lock();
        let is_crowded = topics.len() > MAX_KEPT;
        for (topic, marked) in &self.topics {
            let Some(entry) = topics.get_mut(topic) else { continue };
            entry.waiting -= 1;
            entry.left_at = Instant::now();
            if entry.waiting > 0 && entry.has_marks() {
                marked.notify_one();
            } else if entry.is_idle() {
                topics.remove(topic);
            } else {
                for bucket in self.waiters.buckets.all() {
                    if let Some(highest) = entry.unannounced[bucket.index()].take() {
                        left.push((topic.clone(), bucket, ReadyJobs::one(highest)));
                    }
                }
                if is_crowded && entry.waiting == 0 {
                    topics.remove(topic);
                }
            }
        }
        drop(topics);
        for (topic, bucket, jobs) in left {
            (self.waiters.publish)(Hint::Ready { bucket, topic, jobs });
        }
    }
}

#[cfg(test)]
mod tests;
