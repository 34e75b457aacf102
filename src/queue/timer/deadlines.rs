//! State of the timer for each bucket: its next deadline, and its next poll and retry.

use std::{collections::HashSet, time::Duration};

use tokio::time::Instant;

use crate::{
    job::{Bucket, UnixMillis},
    store::Next,
};

/// Pause after the first error, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Number of `timer.poll_interval`s after which the timer polls, even if other servers have polled.
pub const SKIPPED_POLLS: u32 = 8;
/// State of the timer for one bucket.
#[derive(Default)]
pub struct Known {
    /// The next deadline, by the store's clock and by that of this process.
    pub next: Option<(UnixMillis, Instant)>,
    /// The earliest time of the next promote.
    pub paced_until: Option<Instant>,
    /// Microseconds by which the clock of the bucket's server is ahead of the time since the timer
    /// began. Computed from the quickest answer since the last poll.
    pub ahead: Option<i64>,
    pub last_poll: Option<Instant>,
    /// After an error: the time of the next attempt, and the pause before it.
    pub retry: Option<(Instant, Duration)>,
    /// Index of the topic with which the next poll begins.
    pub cursor: usize,
    /// Polls since the last one that requested the deadline.
    pub polls_without_deadline: u32,
    /// Whether a call is running that will return the next deadline.
    pub is_asked: bool,
}

impl Known {
    /// Returns when to promote; `None` without a deadline.
    pub fn promote_at(&self) -> Option<Instant> {
        let (_, when) = self.next?;
        Some(self.paced_until.map_or(when, |until| until.max(when)))
    }

    /// Returns whether the next poll requests the deadline: always if this server may not know all
    /// deadlines, otherwise from time to time.
    pub fn wants_deadline(&self, is_in_doubt: bool) -> bool {
        let is_new = self.last_poll.is_none();
        is_in_doubt || is_new || self.polls_without_deadline + 1 >= SKIPPED_POLLS
    }
}

/// State of a running timer, with its running calls.
pub struct Deadlines {
    pub began: Instant,
    pub known: Vec<Known>,
    /// Representatives of the servers with a running call.
    pub busy: HashSet<Bucket>,
    /// Factor of the poll interval, so that servers that share polls do not all poll at once.
    pub jitter: f64,
    /// Number of calls so far. It rotates the buckets of a call, so that each bucket is sometimes
    /// the first.
    pub round: usize,
}

impl Deadlines {
    pub fn new(buckets: usize) -> Self {
        Self {
            began: Instant::now(),
            known: (0..buckets).map(|_| Known::default()).collect(),
            busy: HashSet::new(),
            jitter: jitter(),
            round: 0,
        }
    }

    /// Takes over a deadline that a transition of this server has set. If the offset of the store's
    /// clock is unknown, treats the deadline as due, so that the store is asked.
    pub fn report(&mut self, bucket: Bucket, at: UnixMillis) {
        let began = self.began;
        let known = &mut self.known[bucket.index()];
        if known.next.is_some_and(|(next, _)| next <= at) {
            return;
        }
        let micros = i64::try_from(at.get().saturating_mul(1_000)).unwrap_or(i64::MAX);
        let when = known.ahead.map_or_else(Instant::now, |ahead| {
            let wait = u64::try_from(micros.saturating_sub(ahead)).unwrap_or(0);
            began.checked_add(Duration::from_micros(wait)).unwrap_or_else(Instant::now)
        });
        known.next = Some((at, when));
    }

    /// Takes over the next deadline that the store reported.
    pub fn learn(&mut self, bucket: Bucket, next: Option<Next>) {
        let now = Instant::now();
        let since = i64::try_from((now - self.began).as_micros()).unwrap_or(i64::MAX);
        let known = &mut self.known[bucket.index()];
        known.retry = None;
        known.next = next.map(|next| (next.at, now + next.wait));
        if let Some(next) = next.filter(|next| !next.has_passed()) {
            let wait = i64::try_from(next.wait.as_micros()).unwrap_or(i64::MAX);
            let at = i64::try_from(next.at.get().saturating_mul(1_000)).unwrap_or(i64::MAX);
            let ahead = at.saturating_sub(wait).saturating_sub(since);
            known.ahead = Some(known.ahead.map_or(ahead, |known| known.max(ahead)));
        }
    }

    /// Schedules the next attempt after a pause; it begins with a poll.
    pub fn failed(&mut self, bucket: Bucket) {
        let known = &mut self.known[bucket.index()];
        let pause = known.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        let retry = Some((Instant::now() + pause, pause));
        *known = Known { retry, cursor: known.cursor, ..Known::default() };
    }
}

pub fn jitter() -> f64 {
    rand::random_range(0.9..1.0)
}

#[cfg(test)]
mod tests;
