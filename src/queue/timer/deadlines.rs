//! What the timer knows of each bucket: its next deadline, and when it polls or retries.

use std::{collections::HashSet, time::Duration};

use tokio::time::Instant;

use crate::{
    job::{Bucket, UnixMillis},
    store::Next,
};

/// The pause after a first error, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The timer polls after this many times `timer.poll_interval` even if other servers did.
pub const SKIPPED_POLLS: u32 = 8;
/// What the timer knows of a bucket.
#[derive(Default)]
pub struct Known {
    /// The next deadline, and when that is by this process's own clock.
    pub next: Option<(UnixMillis, Instant)>,
    /// By how many microseconds the clock of the bucket's server is ahead of the time since the
    /// timer began: by the quickest answer since the last poll.
    pub ahead: Option<i64>,
    pub last_poll: Option<Instant>,
    /// After an error: when to try again, and the pause until then.
    pub retry: Option<(Instant, Duration)>,
    /// Where among the topics the next poll begins.
    pub cursor: usize,
    /// Polls since the last one that asked for the deadline.
    pub polls_without_deadline: u32,
    /// A call is under way that will tell what is next.
    pub is_asked: bool,
}

impl Known {
    /// Whether the next poll is to ask for the deadline: always while there may be one that nothing
    /// tells of, and else now and then.
    pub fn wants_deadline(&self, is_in_doubt: bool) -> bool {
        let is_new = self.last_poll.is_none();
        is_in_doubt || is_new || self.polls_without_deadline + 1 >= SKIPPED_POLLS
    }
}

/// What a running timer knows, and which calls are under way.
pub struct Deadlines {
    pub began: Instant,
    pub known: Vec<Known>,
    /// Servers that a call is under way to.
    pub busy: HashSet<Bucket>,
    /// A fraction of the interval: servers that share polls must not all poll at once.
    pub jitter: f64,
    /// Counts promotes, so that each bucket is first at times.
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

    /// A transition here has set a deadline. Where the clock of its server is not known, only the
    /// store can say how far that is.
    pub fn told(&mut self, bucket: Bucket, at: UnixMillis) {
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

    /// The store has said what is next.
    pub fn learn(&mut self, bucket: Bucket, next: Option<Next>) {
        let now = Instant::now();
        let since = i64::try_from((now - self.began).as_micros()).unwrap_or(i64::MAX);
        let known = &mut self.known[bucket.index()];
        known.retry = None;
        known.next = next.map(|next| (next.at, now + next.wait));
        if let Some(next) = next.filter(|next| !next.has_come()) {
            let wait = i64::try_from(next.wait.as_micros()).unwrap_or(i64::MAX);
            let at = i64::try_from(next.at.get().saturating_mul(1_000)).unwrap_or(i64::MAX);
            let ahead = at.saturating_sub(wait).saturating_sub(since);
            known.ahead = Some(known.ahead.map_or(ahead, |known| known.max(ahead)));
        }
    }

    /// It is asked again after a pause, by a poll first.
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
