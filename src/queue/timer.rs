//! One timer on every server, no election: promoting is one atomic transition, so a second timer
//! finds nothing left to do.
//!
//! The timer sleeps until the next deadline of any bucket, or until a transition here brings a nearer
//! one. What is due at one server of the store is one call. When no server has looked into a bucket
//! for `timer.poll_interval`, it looks what others have brought, and says so: a look of one server spares
//! the others theirs, and if it dies another one looks in its place. The timer cannot die: an error
//! is logged, backed off and tried again, for ever, and holds up no bucket but its own.

use std::{collections::HashSet, mem, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use futures_timer::Delay;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{dispatcher::divide, stats::Stats, timer_handle::TimerHandle, waiters::Waiters};
use crate::{
    job::{Bucket, Topic, UnixMillis},
    store::{Hint, Next, Peek, PromoteCounts, Promoted, Store, StoreError, StoreResults},
};

/// Most deadlines of one promote.
const DEADLINES_PER_PROMOTE: usize = 500;
/// The pause after a first error, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The timer looks for itself after this many times `timer.poll_interval`, whatever others tell.
const SKIPPED_POLLS: u32 = 8;
/// The last part of a sleep.
const EXACTLY: Duration = Duration::from_millis(10);

pub struct Timer {
    pub store: Arc<dyn Store>,
    pub handle: Arc<TimerHandle>,
    pub waiters: Arc<Waiters>,
    pub stats: Arc<Stats>,
    pub poll_interval: Duration,
}

/// Sleeps to the microsecond by a thread of its own, which costs two switches of threads. So of a long
/// span that is only the end: this may end up to [`EXACTLY`] early. The runtime's own sleep is whole
/// milliseconds long, and one more; it serves alone where the other one has no thread.
async fn sleep(span: Duration) {
    if span > 2 * EXACTLY {
        return tokio::time::sleep(span - EXACTLY).await;
    }
    let exact = AssertUnwindSafe(async { Delay::new(span).await }).catch_unwind();
    if exact.await.is_err() {
        tokio::time::sleep(span).await;
    }
}

/// What the timer knows of a bucket.
#[derive(Default)]
struct Known {
    /// The next deadline, and when that is by this process's own clock.
    next: Option<(UnixMillis, Instant)>,
    /// By how many microseconds the clock of the bucket's server is ahead of the time since the
    /// timer began: of the quickest answer since the last look.
    ahead: Option<i64>,
    last_poll: Option<Instant>,
    /// After an error: when to try again, and the pause until then.
    retry: Option<(Instant, Duration)>,
    /// Where among the topics the next look begins.
    cursor: usize,
    /// Looks since the last that asked for the deadline.
    polls_without_deadline: u32,
    /// At that last look another server was heard of. What one brings before it goes is asked for
    /// once more.
    had_others: bool,
    /// Of [`TimerHandle::doubts`], how many there were then.
    doubts: u64,
    /// A call is under way that will tell what is next.
    is_asked: bool,
}

impl Known {
    /// Whether the next poll is to ask for the deadline. `doubts`: see [`TimerHandle::doubts`].
    fn wants_deadline(&mut self, is_alone: bool, doubts: u64) -> bool {
        let had_others = mem::replace(&mut self.had_others, !is_alone);
        let is_in_doubt = mem::replace(&mut self.doubts, doubts) != doubts;
        let is_new = self.last_poll.is_none();
        let is_time = self.polls_without_deadline + 1 >= SKIPPED_POLLS;
        !is_alone || had_others || is_in_doubt || is_new || is_time
    }
}

/// What a call has brought, by bucket.
struct Done {
    /// The bucket that stood for the server when the call began.
    server: Bucket,
    buckets: Vec<Bucket>,
    answers: Answers,
}

enum Answers {
    /// Which topics were looked for, whether deadlines were, and what was found.
    Peeks(Vec<Vec<Topic>>, bool, StoreResults<Peek>),
    Promoted(StoreResults<Promoted>),
}

/// What a running timer knows, and what it does.
struct Deadlines {
    began: Instant,
    known: Vec<Known>,
    /// Servers that a call is under way to.
    busy: HashSet<Bucket>,
    /// A part of 1: servers that look by turns must not all look at once.
    jitter: f64,
    /// Counts promotes, so that each bucket is first at times.
    round: usize,
}

impl Deadlines {
    fn new(buckets: usize) -> Self {
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
    fn told(&mut self, bucket: Bucket, at: UnixMillis) {
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
    fn learn(&mut self, bucket: Bucket, next: Option<Next>) {
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

    /// It is asked again after a pause, and looked into first.
    fn failed(&mut self, bucket: Bucket) {
        let known = &mut self.known[bucket.index()];
        let pause = known.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        let retry = Some((Instant::now() + pause, pause));
        *known = Known { retry, cursor: known.cursor, ..Known::default() };
    }
}

fn jitter() -> f64 {
    rand::random_range(0.9..1.0)
}

impl Timer {
    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut deadlines = Deadlines::new(self.store.buckets().get().into());
        let mut calls = FuturesUnordered::new();
        while !stop.is_cancelled() {
            self.handle.awake();
            for bucket in self.store.buckets().all() {
                // What the store is going to answer may leave out what it is told of meanwhile: that
                // stays with the handle until then.
                if !deadlines.known[bucket.index()].is_asked
                    && let Some(at) = self.handle.take_told(bucket)
                {
                    deadlines.told(bucket, at);
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

    /// When a bucket must be looked into: soon after the last look of any server, and now and then
    /// without regard to others, whose hints may be lost.
    fn next_poll(&self, bucket: Bucket, deadlines: &Deadlines) -> Instant {
        let known = &deadlines.known[bucket.index()];
        let Some(own) = known.last_poll else { return deadlines.began };
        let last = self.handle.last_poll_elsewhere(bucket).map_or(own, |other| own.max(other));
        let at_latest = own + (self.poll_interval * SKIPPED_POLLS).mul_f64(deadlines.jitter);
        (last + self.poll_interval.mul_f64(deadlines.jitter)).min(at_latest)
    }

    /// The calls that are to be made now, to servers that none is under way to. A bucket is looked
    /// into first, if it is time to: a look is cheaper than a promote that finds nothing, and shows
    /// what other servers have made ready.
    fn due(&self, deadlines: &mut Deadlines) -> Vec<impl Future<Output = Done> + use<>> {
        let now = Instant::now();
        let (mut looks, mut promotes) = (Vec::new(), Vec::new());
        for bucket in self.store.buckets().all() {
            let known = &deadlines.known[bucket.index()];
            if known.retry.is_some_and(|(when, _)| when > now) {
                continue;
            }
            if self.next_poll(bucket, deadlines) <= now {
                looks.push(bucket);
            } else if known.next.is_some_and(|(_, when)| when <= now) {
                promotes.push(bucket);
            }
        }
        let mut calls = Vec::new();
        for (is_look, buckets) in [(true, looks), (false, promotes)] {
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
                let look = is_look.then(|| {
                    let with_deadlines = self.wants_deadlines(deadlines, &buckets);
                    (self.unknown(deadlines, &buckets), with_deadlines)
                });
                calls.push(call(Arc::clone(&self.store), server, buckets, look));
            }
        }
        calls
    }

    /// Whether a look is to ask for deadlines too. They cost a command a bucket, and while no other
    /// server is heard of all that there are came by this one. Still they are asked for now and then,
    /// since hints may be lost.
    fn wants_deadlines(&self, deadlines: &mut Deadlines, buckets: &[Bucket]) -> bool {
        let (mut wants, doubts) = (false, self.handle.doubts());
        for &bucket in buckets {
            let is_alone = self.store.is_alone(self.store.representative(bucket));
            wants |= deadlines.known[bucket.index()].wants_deadline(is_alone, doubts);
        }
        wants
    }

    /// For each bucket the topics to look for.
    fn unknown(&self, deadlines: &mut Deadlines, buckets: &[Bucket]) -> Vec<Vec<Topic>> {
        let known = &mut deadlines.known;
        let unknown =
            |&bucket: &Bucket| self.waiters.unknown_in(bucket, &mut known[bucket.index()].cursor);
        buckets.iter().map(unknown).collect()
    }

    /// How long to sleep for what is next at servers that no call is under way to; tells the handle.
    fn sleep_before(&self, deadlines: &Deadlines) -> Duration {
        let mut end = Instant::now() + self.poll_interval;
        for bucket in self.store.buckets().all() {
            let known = &deadlines.known[bucket.index()];
            if !known.is_asked {
                self.handle.sleeps_until(bucket, known.next.map(|(at, _)| at));
            }
            let next = known.next.map_or(end, |(_, when)| when);
            let work = next.min(self.next_poll(bucket, deadlines));
            // Not in a hot loop after a failure: a store that is away is not asked before.
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
        for &bucket in &buckets {
            deadlines.known[bucket.index()].is_asked = false;
            self.handle.ended(bucket);
        }
        match answers {
            Answers::Peeks(topics, with_deadlines, looks) => {
                deadlines.jitter = jitter();
                for ((&bucket, topics), look) in buckets.iter().zip(topics).zip(looks) {
                    match look {
                        Ok(look) => {
                            self.polled(deadlines, bucket, &topics, &look, with_deadlines);
                        }
                        Err(error) => self.failed(deadlines, bucket, &error),
                    }
                }
                // It stands for all that are together with it.
                self.store.publish(Hint::Polled(server));
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

    fn polled(
        &self,
        deadlines: &mut Deadlines,
        bucket: Bucket,
        topics: &[Topic],
        look: &Peek,
        with_deadline: bool,
    ) {
        self.waiters.found(bucket, topics, &look.ready);
        let known = &mut deadlines.known[bucket.index()];
        known.last_poll = Some(Instant::now());
        known.retry = None;
        if with_deadline {
            (known.ahead, known.polls_without_deadline) = (None, 0);
            deadlines.learn(bucket, look.next);
        } else {
            known.polls_without_deadline += 1;
        }
        self.handle.succeeded(bucket);
    }

    fn promoted(&self, deadlines: &mut Deadlines, bucket: Bucket, promoted: &Promoted) {
        for (topic, moves) in &promoted.topics {
            if moves.ready > 0 {
                self.waiters.ready(topic, bucket, moves.ready);
            }
            self.stats.count([topic], |since| {
                since.expired += moves.expired;
                since.dead += moves.dead;
                since.gone += moves.gone;
            });
            if moves.dead + moves.gone > 0 {
                let PromoteCounts { dead, gone, .. } = moves;
                tracing::info!(%topic, dead, gone, "jobs died or have gone");
            }
        }
        deadlines.learn(bucket, promoted.next);
        self.handle.succeeded(bucket);
    }

    fn failed(&self, deadlines: &mut Deadlines, bucket: Bucket, error: &StoreError) {
        deadlines.failed(bucket);
        let number = bucket.index();
        // One line an outage, not one a try.
        match self.handle.failed(bucket) {
            false => tracing::warn!(bucket = number, %error, "a timer failed and tries again"),
            true => tracing::debug!(bucket = number, %error, "a timer failed again"),
        }
    }
}

/// A look for these topics and perhaps the deadlines, or a promote.
async fn call(
    store: Arc<dyn Store>,
    server: Bucket,
    buckets: Vec<Bucket>,
    look: Option<(Vec<Vec<Topic>>, bool)>,
) -> Done {
    let made = async {
        match &look {
            Some((topics, with_deadlines)) => {
                let parts = buckets.iter().copied().zip(topics.iter().cloned()).collect();
                let looks = store.peek(parts, *with_deadlines).await;
                Answers::Peeks(topics.clone(), *with_deadlines, looks)
            }
            None => Answers::Promoted(store.promote(buckets.clone(), DEADLINES_PER_PROMOTE).await),
        }
    };
    let answers = AssertUnwindSafe(made).catch_unwind().await.unwrap_or_else(|_| {
        let panicked = || StoreError::unknown("a call of the timer panicked");
        Answers::Promoted(buckets.iter().map(|_| Err(panicked())).collect())
    });
    Done { server, buckets, answers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Buckets, Millis, NewJob, OnConflict, Schedule, Topic},
        store::{Clock, Options, Placed, Reply, file::FileStore},
    };

    const DAY: Millis = Millis::new(86_400_000);

    fn job(id: &str, delay: Millis) -> NewJob {
        NewJob {
            id: id.parse().expect("an id"),
            topic: "t".parse().expect("a topic"),
            body: "null".into(),
            schedule: Schedule::In(delay),
            ttr: DAY,
            max_attempts: 1,
            backoff: None,
            dead_retention: DAY,
            on_conflict: OnConflict::Reject,
        }
    }

    async fn put(store: &Arc<FileStore>, name: &str, delay: Millis) -> UnixMillis {
        let parts = vec![(Bucket::FIRST, vec![job(name, delay)])];
        let mut outcomes = store.put(parts).await;
        let reply: Reply<Placed> = outcomes.remove(0).expect("put").remove(0);
        reply.expect("it was free").due_at
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_nearer_deadline_is_met_however_often_other_servers_look() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let options = Options { buckets: Some(Buckets::ONE), clock: Clock::Own };
        let store = Arc::new(FileStore::open(dir.path(), options).expect("a new store"));
        let handle = Arc::new(TimerHandle::new(Buckets::ONE));
        let timer = Timer {
            store: Arc::clone(&store) as Arc<dyn Store>,
            handle: Arc::clone(&handle),
            waiters: Arc::new(Waiters::new(Buckets::ONE, Box::new(|_| {}))),
            stats: Arc::default(),
            poll_interval: Duration::from_secs(1),
        };
        put(&store, "far", DAY).await;
        let stop = CancellationToken::new();
        let running = tokio::spawn(timer.run(stop.clone()));
        while !handle.knows_a_deadline(Bucket::FIRST) {
            tokio::task::yield_now().await;
        }
        handle.wake_by(Bucket::FIRST, put(&store, "near", Millis::new(1_500)).await);
        // Others look all the time, so this timer looks for itself after seven seconds at the
        // earliest.
        let begin = Instant::now();
        let topic: Topic = "t".parse().expect("a topic");
        loop {
            handle.polled_elsewhere(Bucket::FIRST);
            let looks = store.peek(vec![(Bucket::FIRST, vec![topic.clone()])], true).await;
            if looks[0].as_ref().expect("a look").ready == [1] {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(4), "it waits for a look of its own");
            tokio::time::sleep(Duration::from_millis(20)).await; // no event: time is what passes
        }
        stop.cancel();
        running.await.expect("it ends");
    }

    #[test]
    fn alone_it_asks_for_deadlines_when_something_may_have_set_one_unheard() {
        let mut known = Known { last_poll: Some(Instant::now()), ..Known::default() };
        assert!(!known.wants_deadline(true, 0), "it knows all of them");
        assert!(known.wants_deadline(true, 1), "a call ended unknown");
        assert!(!known.wants_deadline(true, 1), "that was asked for");
        assert!(known.wants_deadline(false, 1), "another server works here");
        assert!(known.wants_deadline(true, 1), "it has gone, and may have left one");
        assert!(!known.wants_deadline(true, 1));
        known.polls_without_deadline = SKIPPED_POLLS - 1;
        assert!(known.wants_deadline(true, 1), "hints may be lost");
        assert!(Known::default().wants_deadline(true, 0), "the first one");
    }

    fn schedule_that_knows(next_in: Duration) -> (Deadlines, UnixMillis) {
        let mut deadlines = Deadlines::new(1);
        let at = UnixMillis::new(1_000_000);
        deadlines.learn(Bucket::FIRST, Some(Next { at, wait: next_in }));
        (deadlines, at)
    }

    #[test]
    fn a_nearer_deadline_is_placed_by_the_clock_of_the_store() {
        let (mut deadlines, at) = schedule_that_knows(Duration::from_secs(60));
        let (_, far) = deadlines.known[0].next.expect("known");
        deadlines.told(Bucket::FIRST, UnixMillis::new(at.get() - 10_000));
        let (nearer, when) = deadlines.known[0].next.expect("known");
        assert_eq!(nearer.get(), at.get() - 10_000);
        let apart = far - when;
        assert!(apart.abs_diff(Duration::from_secs(10)) < Duration::from_millis(1), "{apart:?}");
        deadlines.told(Bucket::FIRST, at);
        assert_eq!(
            deadlines.known[0].next.expect("known").0,
            nearer,
            "a later one changes nothing"
        );
    }

    #[test]
    fn where_the_clock_is_not_known_the_store_is_asked_at_once() {
        let mut deadlines = Deadlines::new(1);
        deadlines.told(Bucket::FIRST, UnixMillis::new(1_000_000));
        let (_, when) = deadlines.known[0].next.expect("known");
        assert!(when <= Instant::now());
    }
}
