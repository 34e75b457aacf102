//! One timer a bucket, on every server, no election: promoting is one atomic transition, so a
//! second timer finds nothing left to do.
//!
//! A timer sleeps until its bucket's next deadline, or until a transition here brings a nearer
//! one, and at most `timer.max_sleep`: then it looks what others have brought. It cannot die: an
//! error is logged, backed off and tried again, for ever.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
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
    store::{Moves, Next, Outcome, Store, StoreError},
};

/// Most deadlines of one promote.
const STEP: usize = 500;
/// The pause after a first error, doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What a bucket's timer shares with the rest of the process.
pub(super) struct Bell {
    /// The deadline that the timer sleeps for, in Unix ms; the greatest number while it is awake.
    sleeps_until: AtomicU64,
    nearer: Notify,
    last_pass: Mutex<Instant>,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            sleeps_until: AtomicU64::new(u64::MAX),
            nearer: Notify::new(),
            last_pass: Mutex::new(Instant::now()),
        }
    }

    /// Tells the timer of a deadline; wakes it if that is nearer than what it sleeps for.
    pub(super) fn ring(&self, deadline: UnixMillis) {
        if deadline.get() < self.sleeps_until.load(Ordering::SeqCst) {
            self.nearer.notify_one();
        }
    }

    /// How long ago the timer last went through without an error.
    pub(super) fn since_last_pass(&self) -> Duration {
        self.last_pass.lock().expect(UNPOISONED).elapsed()
    }

    fn passed(&self) {
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

/// How far a timer has looked.
#[derive(Default)]
struct Looks {
    last: Option<Instant>,
    /// Where among the topics the next one begins.
    cursor: usize,
}

impl Timer {
    /// Runs until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        let mut looks = Looks::default();
        while !stop.is_cancelled() {
            let sleep = match self.guarded_pass(&mut looks).await {
                Ok(next) => {
                    self.bell.passed();
                    pause = FIRST_PAUSE;
                    self.sleep_before(next)
                }
                Err(error) => {
                    let bucket = self.bucket.index();
                    tracing::warn!(bucket, %error, "a timer failed and tries again");
                    // Nothing rings in this pause: a store that is away is not asked in a hot loop.
                    self.bell.sleeps_until.store(0, Ordering::SeqCst);
                    let sleep = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    sleep
                }
            };
            tokio::select! {
                () = sleep_exactly(sleep) => {}
                () = self.bell.nearer.notified() => {}
                () = stop.cancelled() => {}
            }
            // From here on any deadline rings: what comes while the timer works is not missed.
            self.bell.sleeps_until.store(u64::MAX, Ordering::SeqCst);
        }
    }

    /// How long to sleep for what is next; tells the bell.
    fn sleep_before(&self, next: Option<Next>) -> Duration {
        let Some(next) = next else { return self.max_sleep };
        let sleep = next.wait.min(self.max_sleep);
        let early = u64::try_from((next.wait - sleep).as_millis()).unwrap_or(u64::MAX);
        let until = next.at.get().saturating_sub(early);
        self.bell.sleeps_until.store(until, Ordering::SeqCst);
        sleep
    }

    async fn guarded_pass(&self, looks: &mut Looks) -> Outcome<Option<Next>> {
        let pass = AssertUnwindSafe(self.pass(looks)).catch_unwind().await;
        pass.unwrap_or_else(|_| Err(StoreError::unknown("a timer's pass panicked")))
    }

    /// Promotes what is due. Looks first, if it is time to: a look is cheaper than a promote that
    /// finds nothing, and shows what other servers have made ready.
    async fn pass(&self, looks: &mut Looks) -> Outcome<Option<Next>> {
        if looks.last.is_none_or(|at| at.elapsed() >= self.max_sleep) {
            let next = self.look(&mut looks.cursor).await?;
            looks.last = Some(Instant::now());
            if !next.is_some_and(Next::has_come) {
                return Ok(next);
            }
        }
        loop {
            let promoted = self.store.promote(self.bucket, STEP).await?;
            for (topic, moves) in &promoted.topics {
                if moves.ready > 0 {
                    self.waiters.mark(topic, self.bucket, moves.ready);
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
                return Ok(promoted.next);
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
