//! Replies of transitions and reads.

use std::time::Duration;

use super::Transitioned;
use crate::job::{PoppedJob, Priority, State, Topic, UnixMillis};

/// Number of ready jobs of a topic in a bucket, and the highest priority among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyJobs {
    /// Number of jobs.
    pub count: u64,
    /// Upper bound of the priorities of these jobs.
    pub highest: Priority,
}

impl ReadyJobs {
    /// No jobs.
    pub const NONE: Self = Self { count: 0, highest: Priority::MIN };

    /// Returns one job of this priority.
    pub fn one(priority: Priority) -> Self {
        Self { count: 1, highest: priority }
    }

    /// Returns the sum of both counts, and the higher priority.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            highest: self.highest.max(other.highest),
        }
    }
}

/// Adds ready jobs to those of their topic.
fn add_ready(all: &mut Vec<(Topic, ReadyJobs)>, topic: &Topic, jobs: ReadyJobs) {
    match all.iter_mut().find(|(name, _)| name == topic) {
        Some((_, known)) => *known = known.plus(jobs),
        None => all.push((topic.clone(), jobs)),
    }
}

impl Default for ReadyJobs {
    fn default() -> Self {
        Self::NONE
    }
}

/// A job that a transition made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readied {
    /// Topic of the job.
    pub topic: Topic,
    /// Priority of the job.
    pub priority: Priority,
    /// When the job expires.
    pub expires_at: Option<UnixMillis>,
}

impl From<Transitioned> for Readied {
    fn from(job: Transitioned) -> Self {
        Self { topic: job.topic, priority: job.priority, expires_at: job.expires_at }
    }
}

/// Result of one pop request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Popped {
    /// The reserved jobs.
    pub jobs: Vec<PoppedJob>,
    /// Number of jobs of the topic that are still ready in this bucket.
    pub left: u64,
    /// Jobs that had expired and are ready in other topics now, by topic.
    pub moved: Vec<(Topic, ReadyJobs)>,
    /// Number of jobs that had expired or are damaged, and are dead now.
    pub dead: u64,
}

impl Popped {
    /// Counts a job that the request has ended.
    pub fn count_ended(&mut self, job: &Transitioned) {
        self.dead += u64::from(job.died);
        if job.dead_from.is_some() {
            add_ready(&mut self.moved, &job.topic, ReadyJobs::one(job.priority));
        }
    }

    /// Returns whether the request ended jobs instead of reserving them.
    pub fn has_ended_jobs(&self) -> bool {
        self.dead > 0 || !self.moved.is_empty()
    }
}

/// Result of a promote in one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Promoted {
    /// Counts of promoted jobs by topic.
    pub topics: TopicCounts,
    /// The bucket's next deadline; if it has passed, more jobs wait to be promoted.
    pub next: Option<Next>,
}

/// Counts of jobs that a promote has acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromoteCounts {
    /// Jobs that became ready.
    pub ready: ReadyJobs,
    /// Reservations whose TTR ended.
    pub timed_out: u64,
    /// Jobs that became dead: expired, or their attempts were spent.
    pub dead: u64,
    /// Jobs that died in the same ways and moved to another topic.
    pub moved: u64,
    /// Dead jobs deleted after their retention.
    pub gone: u64,
}

/// Counts of a promote by topic.
pub type TopicCounts = Vec<(Topic, PromoteCounts)>;

/// Returns the counts of a topic.
pub fn counts_of<'a>(topics: &'a mut TopicCounts, topic: &Topic) -> &'a mut PromoteCounts {
    let known = topics.iter().position(|(name, _)| name == topic);
    let index = known.unwrap_or_else(|| {
        topics.push((topic.clone(), PromoteCounts::default()));
        topics.len() - 1
    });
    &mut topics[index].1
}

/// A job whose TTR has ended, or that has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lapsed {
    /// The state before.
    pub was: State,
    /// The job afterwards.
    pub job: Transitioned,
}

impl Lapsed {
    /// Adds the job to the counts of its topics.
    pub fn count(&self, topics: &mut TopicCounts) {
        let (job, has_moved) = (&self.job, self.job.dead_from.is_some());
        let counts = counts_of(topics, job.topic_before());
        counts.timed_out += u64::from(self.was == State::Reserved);
        counts.dead += u64::from(job.died);
        counts.moved += u64::from(has_moved);
        if job.state == State::Ready && (has_moved || self.was == State::Reserved) {
            let ready = &mut counts_of(topics, &job.topic).ready;
            *ready = ready.plus(ReadyJobs::one(job.priority));
        }
    }
}

impl Promoted {
    /// Sums the counts of all topics.
    pub fn total(&self) -> PromoteCounts {
        self.topics.iter().fold(PromoteCounts::default(), |sum, (_, moves)| PromoteCounts {
            ready: sum.ready.plus(moves.ready),
            timed_out: sum.timed_out + moves.timed_out,
            dead: sum.dead + moves.dead,
            moved: sum.moved + moves.moved,
            gone: sum.gone + moves.gone,
        })
    }
}

/// Result of a poll of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The bucket's next deadline. May be too early, never too late. None if it was not requested.
    pub next: Option<Next>,
    /// Ready jobs of each requested topic.
    pub ready: Vec<ReadyJobs>,
}

/// A deadline, and the time until it by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Time of the deadline.
    pub at: UnixMillis,
    /// Time until the deadline; zero if it has passed.
    pub wait: Duration,
}

impl Next {
    /// Computes the wait from the current Unix time in microseconds: a wait rounded to milliseconds
    /// would be late.
    pub fn seen(at: UnixMillis, micros: u64) -> Self {
        let deadline = at.get().saturating_mul(1_000);
        Self { at, wait: Duration::from_micros(deadline.saturating_sub(micros)) }
    }

    /// Returns whether the deadline has passed.
    pub fn has_passed(self) -> bool {
        self.wait.is_zero()
    }
}
