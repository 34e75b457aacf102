//! One timer a bucket, on every server, no election: promoting is one atomic transition, so a
//! second timer finds nothing left to do.
//!
//! A timer sleeps until its bucket's next deadline, or until a transition here brings a nearer
//! one. When nobody has looked for `timer.max_sleep`, it looks what others have brought, and says
//! so: a look of one server spares the others theirs, and if it dies another one looks in its
//! place. A timer cannot die: an error is logged, backed off and tried again, for ever.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use futures_timer::Delay;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{stats::Stats, waiters::Waiters};
use crate::{
    job::{Bucket, UnixMillis},
    store::{Hint, Moves, Next, Outcome, Store, StoreError},
};

/// Most deadlines of one promote.
const STEP: usize = 500;
/// The pause after a first error, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A timer looks for itself after this many times `timer.max_sleep`, whatever others tell.
const SKIPPED_LOOKS: u32 = 8;

/// What a bucket's timer shares with the rest of the process.
pub(super) struct Bell {
    /// The deadline that the timer sleeps for, in Unix ms; the greatest number while it is awake.
    sleeps_until: AtomicU64,
    /// The earliest deadline that it was told of since it last took it, in Unix ms; the greatest
    /// number if there was none.
    rung: AtomicU64,
    nearer: Notify,
    last_pass: Mutex<Instant>,
    /// When another server's timer was heard to look.
    looked_elsewhere: Mutex<Option<Instant>>,
    /// The last pass ended in an error of the store.
    failing: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            sleeps_until: AtomicU64::new(u64::MAX),
            rung: AtomicU64::new(u64::MAX),
            nearer: Notify::new(),
            last_pass: Mutex::new(Instant::now()),
            looked_elsewhere: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// Tells the timer of a deadline; wakes it if that is nearer than what it sleeps for. A later
    /// one waits until the timer wakes: what it then meant to do may turn out to be needless, and
    /// this deadline would be forgotten.
    pub(super) fn ring(&self, deadline: UnixMillis) {
        self.rung.fetch_min(deadline.get(), Ordering::SeqCst);
        if deadline.get() < self.sleeps_until.load(Ordering::SeqCst) {
            self.nearer.notify_one();
        }
    }

    /// The earliest deadline rung since the last call.
    fn take_rung(&self) -> Option<UnixMillis> {
        let rung = self.rung.swap(u64::MAX, Ordering::SeqCst);
        (rung < u64::MAX).then(|| UnixMillis::new(rung))
    }

    /// Another server's timer has looked into the bucket.
    pub(super) fn looked_elsewhere(&self) {
        *self.looked_elsewhere.lock().expect(UNPOISONED) = Some(Instant::now());
    }

    /// How long ago the timer last went through without an error.
    pub(super) fn since_last_pass(&self) -> Duration {
        self.last_pass.lock().expect(UNPOISONED).elapsed()
    }

    /// Whether the store refused the timer when it last tried.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    fn passed(&self) {
        self.failing.store(false, Ordering::Relaxed);
        *self.last_pass.lock().expect(UNPOISONED) = Instant::now();
    }
}

const UNPOISONED: &str = "nobody panics while holding this lock";

pub(super) struct Timer {
    pub(super) bucket: Bucket,
    pub(super) store: Arc<dyn Store>,
    pub(super) bell: Arc<Bell>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) stats: Arc<Stats>,
    pub(super) max_sleep: Duration,
}

/// The runtime's own sleep is whole milliseconds long, and one more. It serves where the other one
/// has no thread.
async fn sleep_exactly(span: Duration) {
    let exact = AssertUnwindSafe(async { Delay::new(span).await }).catch_unwind();
    if exact.await.is_err() {
        tokio::time::sleep(span).await;
    }
}

/// What a timer knows of its bucket.
struct Looks {
    /// The next deadline, and when that is by this process's own clock.
    next: Option<(UnixMillis, Instant)>,
    last: Option<Instant>,
    /// A part of 1: servers that look by turns must not all look at once.
    haste: f64,
    /// Where among the topics the next look begins.
    cursor: usize,
}

impl Looks {
    fn new() -> Self {
        Self { next: None, last: None, haste: rand::random_range(0.75..1.0), cursor: 0 }
    }

    /// How long until it is time to look: soon after the last look of any server, and now and
    /// then without regard to others, whose hints may be lost.
    fn wait(&self, bell: &Bell, max_sleep: Duration) -> Duration {
        let Some(own) = self.last else { return Duration::ZERO };
        let elsewhere = *bell.looked_elsewhere.lock().expect(UNPOISONED);
        let last = elsewhere.map_or(own, |elsewhere| own.max(elsewhere));
        let due = (last + max_sleep.mul_f64(self.haste))
            .min(own + (max_sleep * SKIPPED_LOOKS).mul_f64(self.haste));
        due.saturating_duration_since(Instant::now())
    }

    fn looked(&mut self) {
        let cursor = self.cursor;
        *self = Self { last: Some(Instant::now()), cursor, ..Self::new() };
    }

    /// Whether there may be something to promote: what was next has come, or this process was told
    /// of a nearer deadline, and only the store can say how far that is.
    fn wants_promote(&self, rung: Option<UnixMillis>) -> bool {
        match self.next {
            None => rung.is_some(),
            Some((at, when)) => when <= Instant::now() || rung.is_some_and(|rung| rung < at),
        }
    }

    fn know(&mut self, next: Option<Next>) {
        self.next = next.map(|next| (next.at, Instant::now() + next.wait));
    }
}

impl Timer {
    /// Runs until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        let mut looks = Looks::new();
        while !stop.is_cancelled() {
            let failed = match self.guarded_pass(&mut looks).await {
                Ok(()) => {
                    self.bell.passed();
                    pause = FIRST_PAUSE;
                    None
                }
                Err(error) => {
                    let bucket = self.bucket.index();
                    // One line an outage, not one a try.
                    match self.bell.failing.swap(true, Ordering::Relaxed) {
                        false => tracing::warn!(bucket, %error, "a timer failed and tries again"),
                        true => tracing::debug!(bucket, %error, "a timer failed again"),
                    }
                    looks = Looks::new();
                    let sleep = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    Some(sleep)
                }
            };
            let sleep = failed.unwrap_or_else(|| self.sleep_before(&looks));
            tokio::select! {
                () = sleep_exactly(sleep) => {}
                // Not after a failure: a store that is away is not asked in a hot loop.
                () = self.bell.nearer.notified(), if failed.is_none() => {}
                () = stop.cancelled() => {}
            }
            // From here on any deadline rings: what comes while the timer works is not missed.
            self.bell.sleeps_until.store(u64::MAX, Ordering::SeqCst);
        }
    }

    /// How long to sleep for what is next; tells the bell.
    fn sleep_before(&self, looks: &Looks) -> Duration {
        let look = looks.wait(&self.bell, self.max_sleep);
        let Some((at, when)) = looks.next else { return look };
        let wait = when.saturating_duration_since(Instant::now());
        let sleep = wait.min(look);
        let early = u64::try_from((wait - sleep).as_millis()).unwrap_or(u64::MAX);
        self.bell.sleeps_until.store(at.get().saturating_sub(early), Ordering::SeqCst);
        sleep
    }

    async fn guarded_pass(&self, looks: &mut Looks) -> Outcome<()> {
        let pass = AssertUnwindSafe(self.pass(looks)).catch_unwind().await;
        pass.unwrap_or_else(|_| Err(StoreError::unknown("a timer's pass panicked")))
    }

    /// Promotes what is due. Looks first, if it is time to: a look is cheaper than a promote that
    /// finds nothing, and shows what other servers have made ready.
    async fn pass(&self, looks: &mut Looks) -> Outcome<()> {
        // Taken before the store is asked: what it answers then includes this deadline.
        let rung = self.bell.take_rung();
        if looks.wait(&self.bell, self.max_sleep).is_zero() {
            let next = self.look(&mut looks.cursor).await?;
            self.store.tell(Hint::Looked(self.bucket));
            looks.looked();
            looks.know(next);
            if !next.is_some_and(Next::has_come) {
                return Ok(());
            }
        } else if !looks.wants_promote(rung) {
            return Ok(()); // it was time to look, and another server has done so
        }
        loop {
            let promoted = self.store.promote(self.bucket, STEP).await?;
            for (topic, moves) in &promoted.topics {
                if moves.ready > 0 {
                    self.waiters.ready(topic, self.bucket, moves.ready);
                }
                self.stats.count([topic], |since| {
                    since.expired += moves.expired;
                    since.dead += moves.dead;
                    since.gone += moves.gone;
                });
                if moves.dead + moves.gone > 0 {
                    let Moves { dead, gone, .. } = moves;
                    tracing::info!(%topic, dead, gone, "jobs died or have gone");
                }
            }
            if !promoted.next.is_some_and(Next::has_come) {
                looks.know(promoted.next);
                return Ok(());
            }
            self.bell.passed();
        }
    }

    async fn look(&self, cursor: &mut usize) -> Outcome<Option<Next>> {
        let topics = self.waiters.unknown_in(self.bucket, cursor);
        let look = self.store.look(self.bucket, topics.clone()).await?;
        for (topic, ready) in topics.iter().zip(look.ready) {
            if ready > 0 {
                self.waiters.mark(topic, self.bucket, ready);
            }
        }
        Ok(look.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Buckets, Millis, NewJob, OnConflict, Schedule, Topic},
        store::{Clock, Options, file::FileStore},
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

    #[tokio::test(flavor = "multi_thread")]
    async fn a_deadline_behind_the_next_look_is_met_when_that_look_is_skipped() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let buckets = Buckets::ONE;
        let options = Options { buckets: Some(buckets), clock: Clock::Own };
        let store = Arc::new(FileStore::open(dir.path(), options).expect("a new store"));
        let bucket = buckets.all().next().expect("one bucket");
        let bell = Arc::new(Bell::new());
        let timer = Timer {
            bucket,
            store: Arc::clone(&store) as Arc<dyn Store>,
            bell: Arc::clone(&bell),
            waiters: Arc::new(Waiters::new(buckets, Box::new(|_| {}))),
            stats: Arc::default(),
            max_sleep: Duration::from_secs(1),
        };
        // A deadline far away, so that the timer sleeps for its next look.
        store.put(bucket, vec![job("far", DAY)]).await.expect("put");
        let stop = CancellationToken::new();
        let running = tokio::spawn(timer.run(stop.clone()));
        while bell.sleeps_until.load(Ordering::SeqCst) == u64::MAX {
            tokio::task::yield_now().await;
        }
        let put = store.put(bucket, vec![job("near", Millis::new(1_500))]).await.expect("put");
        bell.ring(put[0].as_ref().expect("it was free").due_at);
        // Others look all the time, so this timer looks for itself after six seconds at the
        // earliest.
        let begin = Instant::now();
        let topic: Topic = "t".parse().expect("a topic");
        loop {
            bell.looked_elsewhere();
            let look = store.look(bucket, vec![topic.clone()]).await.expect("a look");
            if look.ready == [1] {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(4), "it waits for a look of its own");
            tokio::time::sleep(Duration::from_millis(20)).await; // no event: time is what passes
        }
        stop.cancel();
        running.await.expect("it ends");
    }
}
