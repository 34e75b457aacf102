//! The timer that promotes due jobs. Each server has one, without an election. Each job is
//! promoted in one atomic step, so a second timer finds no due job left.
//!
//! The timer sleeps until the next deadline of any bucket, or until a transition of this server
//! sets an earlier one. It promotes all due jobs on one server of the store in one call. If no
//! server has polled a bucket for `timer.poll_interval`, the timer polls it, to find the jobs of
//! other servers. It then publishes a hint, so that the other servers need not poll. If this server
//! dies, another one polls. The timer never ends on an error: it logs the error, backs off and
//! tries again, and delays only the bucket that failed.

mod deadlines;
pub mod handle;
pub mod hint_listener;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use futures_timer::Delay;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    deadlines::{Deadlines, SKIPPED_POLLS, jitter},
    handle::TimerHandle,
};
use super::{batching::dispatcher::divide, figures::stats::Stats, waiters::Waiters};
use crate::{
    job::{Bucket, Topic},
    store::{
        Hint, Peek, Promote, PromoteCounts, Promoted, SharedStore, Store, StoreError, StoreResults,
    },
};

/// Maximum number of deadlines that one promote handles.
const DEADLINES_PER_PROMOTE: usize = 500;
/// Pause between promotes while no consumer waits. With 25,000 delayed puts a second, it saves four
/// of five promotes, and 7 % of the server's CPU time on Redis.
const PACE: Duration = Duration::from_millis(5);
/// Last part of a sleep, which is timed precisely.
const PRECISE_SLEEP: Duration = Duration::from_millis(10);

pub struct Timer {
    pub store: Arc<dyn Store>,
    pub handle: Arc<TimerHandle>,
    pub waiters: Arc<Waiters>,
    pub stats: Arc<Stats>,
    pub poll_interval: Duration,
}

/// Sleeps precisely to the microsecond with `futures-timer`, whose own thread costs two thread
/// switches. A long sleep uses the runtime instead, and returns up to [`PRECISE_SLEEP`] early; the
/// timer then sleeps again for the rest. The runtime rounds a sleep up to whole milliseconds and
/// adds one. Only the runtime is used if the thread cannot be started.
async fn sleep(span: Duration) {
    if span > 2 * PRECISE_SLEEP {
        return tokio::time::sleep(span - PRECISE_SLEEP).await;
    }
    let exact = AssertUnwindSafe(async { Delay::new(span).await }).catch_unwind();
    if exact.await.is_err() {
        tokio::time::sleep(span).await;
    }
}

/// Result of a call, by bucket.
struct Done {
    /// The bucket that represented the server when the call began.
    server: Bucket,
    buckets: Vec<Bucket>,
    answers: Answers,
}

enum Answers {
    /// The requested topics of each bucket, whether deadlines were requested, and the results.
    Peeks(Vec<Vec<Topic>>, bool, StoreResults<Peek>),
    Promoted(StoreResults<Promoted>),
}

impl Timer {
    pub async fn run(self, stop: CancellationToken) {
        let mut deadlines = Deadlines::new(self.store.buckets().get().into());
        let mut calls = FuturesUnordered::new();
        while !stop.is_cancelled() {
            self.handle.awake();
            for bucket in self.store.buckets().all() {
                // A running call may omit new deadlines, so the handle keeps them until the call
                // ends.
                if !deadlines.known[bucket.index()].is_asked
                    && let Some(at) = self.handle.take_reported(bucket)
                {
                    deadlines.report(bucket, at);
                }
            }
            calls.extend(self.due(&mut deadlines));
            let span = self.sleep_before(&deadlines);
            tokio::select! {
                Some(done) = calls.next(), if !calls.is_empty() => self.done(&mut deadlines, done),
                () = sleep(span) => {}
                () = self.handle.woken() => {}
                () = stop.cancelled() => {}
            }
        }
        while let Some(done) = calls.next().await {
            self.done(&mut deadlines, done);
        }
    }

    /// Returns when to poll a bucket: one interval after the last poll of any server. From time to
    /// time it ignores the polls of other servers, since their hints may be lost.
    fn next_poll(&self, bucket: Bucket, deadlines: &Deadlines) -> Instant {
        let known = &deadlines.known[bucket.index()];
        let Some(own) = known.last_poll else { return deadlines.began };
        let last = self.handle.last_poll_elsewhere(bucket).map_or(own, |other| own.max(other));
        let at_latest = own + (self.poll_interval * SKIPPED_POLLS).mul_f64(deadlines.jitter);
        (last + self.poll_interval.mul_f64(deadlines.jitter)).min(at_latest)
    }

    /// Returns the calls to make now, to servers without a running call. A bucket that is due for a
    /// poll is polled before it is promoted. A poll costs less than a promote that finds nothing,
    /// and it finds jobs that other servers have made ready.
    fn due(&self, deadlines: &mut Deadlines) -> Vec<impl Future<Output = Done> + use<>> {
        let now = Instant::now();
        let (mut polls, mut promotes) = (Vec::new(), Vec::new());
        for bucket in self.store.buckets().all() {
            let known = &deadlines.known[bucket.index()];
            if known.retry.is_some_and(|(when, _)| when > now) {
                continue;
            }
            if self.next_poll(bucket, deadlines) <= now {
                polls.push(bucket);
            } else if known.promote_at().is_some_and(|when| when <= now) {
                promotes.push(bucket);
            }
        }
        let mut calls = Vec::new();
        for (is_poll, buckets) in [(true, polls), (false, promotes)] {
            let server = |bucket: &Bucket| self.store.representative(*bucket);
            for (server, mut buckets) in divide(buckets, server).0 {
                if !deadlines.busy.insert(server) {
                    continue;
                }
                let first = deadlines.round % buckets.len();
                deadlines.round = deadlines.round.wrapping_add(1);
                buckets.rotate_left(first);
                for &bucket in &buckets {
                    deadlines.known[bucket.index()].is_asked = true;
                    self.handle.began(bucket);
                }
                let poll = is_poll.then(|| {
                    let with_deadlines = self.wants_deadlines(deadlines, &buckets);
                    (self.unknown(deadlines, &buckets), with_deadlines)
                });
                calls.push(call(Arc::clone(&self.store), server, buckets, poll));
            }
        }
        calls
    }

    /// Returns whether a poll requests deadlines too, which costs one command per bucket. A server
    /// that is alone knows all deadlines, because it has set them itself, with two exceptions:
    /// another server may have set some before it left, and a call of unknown outcome may set some
    /// later. After either, polls request deadlines for a while.
    fn wants_deadlines(&self, deadlines: &Deadlines, buckets: &[Bucket]) -> bool {
        if !self.store.shared().is_some_and(SharedStore::is_alone) {
            self.handle.doubt();
        }
        let is_in_doubt = self.handle.is_in_doubt();
        let mut known = buckets.iter().map(|bucket| &deadlines.known[bucket.index()]);
        known.any(|known| known.wants_deadline(is_in_doubt))
    }

    /// Returns the topics to peek at in each bucket.
    fn unknown(&self, deadlines: &mut Deadlines, buckets: &[Bucket]) -> Vec<Vec<Topic>> {
        let known = &mut deadlines.known;
        let unknown =
            |&bucket: &Bucket| self.waiters.unmarked_in(bucket, &mut known[bucket.index()].cursor);
        buckets.iter().map(unknown).collect()
    }

    /// Returns how long to sleep until the next work for servers without a running call, and
    /// publishes the known deadlines in the handle.
    fn sleep_before(&self, deadlines: &Deadlines) -> Duration {
        let mut end = Instant::now() + self.poll_interval;
        for bucket in self.store.buckets().all() {
            let known = &deadlines.known[bucket.index()];
            if !known.is_asked {
                self.handle.sleeps_until(bucket, known.next.map(|(at, _)| at));
            }
            let next = known.promote_at().unwrap_or(end);
            let work = next.min(self.next_poll(bucket, deadlines));
            // Due deadlines wait for the retry, too. Otherwise the timer would loop without a pause
            // while the store is unavailable.
            let work = known.retry.map_or(work, |(when, _)| when);
            if work < end && !deadlines.busy.contains(&self.store.representative(bucket)) {
                end = work;
            }
        }
        end.saturating_duration_since(Instant::now())
    }

    fn done(&self, deadlines: &mut Deadlines, done: Done) {
        let Done { server, buckets, answers } = done;
        deadlines.busy.remove(&server);
        self.handle.passed();
        for &bucket in &buckets {
            deadlines.known[bucket.index()].is_asked = false;
            self.handle.ended(bucket);
        }
        match answers {
            Answers::Peeks(topics, with_deadlines, peeks) => {
                deadlines.jitter = jitter();
                let sound = peeks.iter().filter(|peek| peek.is_ok()).count();
                for ((&bucket, topics), peek) in buckets.iter().zip(topics).zip(peeks) {
                    match peek {
                        Ok(peek) => {
                            self.polled(deadlines, bucket, &topics, &peek, with_deadlines);
                        }
                        Err(error) => self.failed(deadlines, bucket, &error),
                    }
                }
                // The hint is valid for all buckets of a server. After a poll of only some of them,
                // or a poll that failed for some, the other servers must poll themselves.
                if sound == self.buckets_of(server) {
                    self.store.publish(Hint::Polled(server));
                }
            }
            Answers::Promoted(all) => {
                for (&bucket, promoted) in buckets.iter().zip(all) {
                    match promoted {
                        Ok(promoted) => self.promoted(deadlines, bucket, &promoted),
                        Err(error) => self.failed(deadlines, bucket, &error),
                    }
                }
            }
        }
    }

    /// Returns the number of buckets on this server of the store.
    fn buckets_of(&self, server: Bucket) -> usize {
        let all = self.store.buckets().all();
        all.filter(|&bucket| self.store.representative(bucket) == server).count()
    }

    fn polled(
        &self,
        deadlines: &mut Deadlines,
        bucket: Bucket,
        topics: &[Topic],
        peek: &Peek,
        with_deadline: bool,
    ) {
        self.waiters.found(bucket, topics, &peek.ready);
        let known = &mut deadlines.known[bucket.index()];
        known.last_poll = Some(Instant::now());
        let retry = known.retry.take();
        if with_deadline {
            (known.ahead, known.polls_without_deadline) = (None, 0);
            deadlines.learn(bucket, peek.next);
        } else {
            known.polls_without_deadline += 1;
        }
        let known = &mut deadlines.known[bucket.index()];
        if retry.is_some() && known.next.is_some_and(|(_, when)| when <= Instant::now()) {
            // If a promote failed, only a promote shows that the bucket has recovered. Without the
            // pause, failing promotes and polls would alternate without a pause.
            known.retry = retry;
        } else {
            self.handle.succeeded(bucket);
        }
    }

    fn promoted(&self, deadlines: &mut Deadlines, bucket: Bucket, promoted: &Promoted) {
        for (topic, moves) in &promoted.topics {
            if moves.ready.count > 0 {
                self.waiters.ready(topic, bucket, moves.ready);
            }
            self.stats.count([topic], |since| {
                since.timed_out += moves.timed_out;
                since.dead += moves.dead;
                since.moved += moves.moved;
                since.gone += moves.gone;
            });
            if moves.dead + moves.moved + moves.gone > 0 {
                let PromoteCounts { dead, moved, gone, .. } = moves;
                tracing::info!(%topic, dead, moved, gone, "jobs died, moved to another topic, or were deleted");
            }
        }
        deadlines.learn(bucket, promoted.next);
        deadlines.known[bucket.index()].paced_until =
            self.is_unhurried(promoted).then(|| Instant::now() + PACE);
        self.handle.succeeded(bucket);
    }

    /// Returns whether the next promote may be late: no consumer waits for its jobs, not even at
    /// another server, and it has not got behind.
    fn is_unhurried(&self, promoted: &Promoted) -> bool {
        self.waiters.pops() == 0
            && self.store.shared().is_none_or(SharedStore::is_alone)
            && !promoted.next.is_some_and(|next| next.has_passed())
    }

    fn failed(&self, deadlines: &mut Deadlines, bucket: Bucket, error: &StoreError) {
        deadlines.failed(bucket);
        // A store that does not answer now may execute earlier calls when it is available again.
        self.handle.doubt();
        let number = bucket.index();
        // Warns once per outage, not once per attempt.
        match self.handle.failed(bucket) {
            false => tracing::warn!(bucket = number, %error, "a timer failed and tries again"),
            true => tracing::debug!(bucket = number, %error, "a timer failed again"),
        }
    }
}

/// Makes one call: a poll for `poll` (topics, whether with deadlines), or a promote.
async fn call(
    store: Arc<dyn Store>,
    server: Bucket,
    buckets: Vec<Bucket>,
    poll: Option<(Vec<Vec<Topic>>, bool)>,
) -> Done {
    let made = async {
        match &poll {
            Some((topics, with_deadlines)) => {
                let parts = buckets.iter().copied().zip(topics.iter().cloned()).collect();
                let peeks = store.peek(parts, *with_deadlines).await;
                Answers::Peeks(topics.clone(), *with_deadlines, peeks)
            }
            None => {
                let promote = Promote { limit: DEADLINES_PER_PROMOTE };
                let parts = buckets.iter().map(|&bucket| (bucket, promote)).collect();
                Answers::Promoted(store.promote(parts).await)
            }
        }
    };
    let answers = AssertUnwindSafe(made).catch_unwind().await.unwrap_or_else(|_| {
        let panicked = || StoreError::unknown("a call of the timer panicked");
        Answers::Promoted(buckets.iter().map(|_| Err(panicked())).collect())
    });
    Done { server, buckets, answers }
}

#[cfg(test)]
mod tests;
