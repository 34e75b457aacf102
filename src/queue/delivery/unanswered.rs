//! Pops that ended without an answer, and the return of the jobs that they reserved.
//!
//! If the answer or the confirmation of a pop is lost, the pop may have reserved jobs that reach no
//! consumer. Their reservations begin with the nonce of the pop. So a scan over the reserved jobs
//! of its topics finds them and gives them back, with the attempt uncounted. Only such pops need a
//! scan.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::queue::{batching::LATE_CALL, context::Context};
use crate::{
    job::{Bucket, Nonce, Reservation, Topic},
    store::{JobRef, ReadyJobs, StoreResult},
};

/// Maximum number of unanswered pops of one bucket. The jobs of further pops return after their
/// TTR.
const MAX_UNANSWERED: usize = 1_000;
/// Pause after the first scan, doubled up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time after which even the longest TTR has ended.
const GIVEN_UP: Duration = Duration::from_secs(24 * 3_600);

pub struct Unanswered {
    bucket: Bucket,
    context: Context,
    /// When cancelled, one more scan is made.
    stop: CancellationToken,
    pops: Mutex<Pops>,
    added: Notify,
}

#[derive(Default)]
struct Pops {
    waiting: Vec<Pop>,
    /// Whether a task is scanning for these pops.
    is_scanning: bool,
}

#[derive(Clone)]
struct Pop {
    nonce: Nonce,
    topics: Vec<Topic>,
    since: Instant,
    /// Whether a scan has found jobs of this pop. Then the next complete scan finds all of them.
    found: bool,
}

impl Unanswered {
    pub fn new(bucket: Bucket, context: Context, stop: CancellationToken) -> Self {
        Self { bucket, context, stop, pops: Mutex::default(), added: Notify::new() }
    }

    /// Returns whether all unanswered pops are settled.
    pub fn is_settled(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Registers a pop without an answer. A background task then gives back the jobs that it
    /// reserved.
    pub fn add(self: &Arc<Self>, nonce: Nonce, topics: Vec<Topic>) {
        let mut pops = self.lock();
        if pops.waiting.len() >= MAX_UNANSWERED {
            let bucket = self.bucket.index();
            tracing::warn!(
                bucket,
                "too many pops without an answer; their jobs return after their TTR"
            );
            return;
        }
        pops.waiting.push(Pop { nonce, topics, since: Instant::now(), found: false });
        if std::mem::replace(&mut pops.is_scanning, true) {
            self.added.notify_one();
        } else {
            self.context.calls.spawn(Arc::clone(self).run());
        }
    }

    async fn run(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while self.step().await {
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = self.added.notified() => pause = FIRST_PAUSE,
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Scans once and gives back the jobs found; returns whether to scan again later.
    async fn step(&self) -> bool {
        let last = self.stop.is_cancelled();
        let pops = self.lock().waiting.clone();
        let asked: HashSet<Nonce> = pops.iter().map(|pop| pop.nonce).collect();
        let mut found = HashSet::new();
        let scanned = self.scan(&pops, &asked, &mut found).await;
        let mut now = self.lock();
        match scanned {
            // A scan during a late pop may see only some of its jobs; the next scan sees all of
            // them.
            Ok(()) => now.waiting.retain(|pop| {
                let is_over = pop.found || pop.since.elapsed() > LATE_CALL;
                !(is_over && asked.contains(&pop.nonce))
            }),
            Err(error) => {
                // Gives up on a topic that can never be read; its jobs return after their TTR.
                now.waiting.retain(|pop| pop.since.elapsed() <= GIVEN_UP);
                let (bucket, pops) = (self.bucket.index(), pops.len());
                match last {
                    false => tracing::debug!(bucket, pops, %error, "failed to give jobs back yet"),
                    true => tracing::warn!(
                        bucket, pops, %error, "failed to give jobs back; they return after their TTR"
                    ),
                }
            }
        }
        now.waiting.iter_mut().for_each(|pop| pop.found |= found.contains(&pop.nonce));
        let is_new = |pop: &Pop| !asked.contains(&pop.nonce);
        now.is_scanning = now.waiting.iter().any(|pop| !last || is_new(pop));
        now.is_scanning
    }

    /// Gives back the jobs that `pops` have reserved. Adds the nonces of pops that had reserved
    /// jobs to `found`.
    async fn scan(
        &self,
        pops: &[Pop],
        asked: &HashSet<Nonce>,
        found: &mut HashSet<Nonce>,
    ) -> StoreResult<()> {
        let mut topics: Vec<&Topic> = pops.iter().flat_map(|pop| &pop.topics).collect();
        topics.sort_unstable();
        topics.dedup();
        // A topic that cannot be read must not delay the jobs of other topics.
        let mut scanned = Ok(());
        for topic in topics {
            scanned = self.scan_topic(topic, asked, found).await.and(scanned);
        }
        scanned
    }

    async fn scan_topic(
        &self,
        topic: &Topic,
        asked: &HashSet<Nonce>,
        found: &mut HashSet<Nonce>,
    ) -> StoreResult<()> {
        let mut cursor = None;
        loop {
            let page = self.context.store.held(self.bucket, topic.clone(), cursor).await?;
            let nonce = |held: &JobRef| held.reservation.map(Reservation::nonce);
            let is_theirs = |held: &JobRef| nonce(held).is_some_and(|n| asked.contains(&n));
            let theirs: Vec<JobRef> = page.held.into_iter().filter(is_theirs).collect();
            found.extend(theirs.iter().filter_map(nonce));
            self.unpop(topic, theirs).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    async fn unpop(&self, topic: &Topic, held: Vec<JobRef>) -> StoreResult<()> {
        if held.is_empty() {
            return Ok(());
        }
        let outcomes = self.context.store.unpop(vec![(self.bucket, held)]).await;
        let replies: Vec<Vec<_>> = outcomes.into_iter().collect::<StoreResult<_>>()?;
        let given = replies.iter().flatten().flatten();
        let given = given.fold(ReadyJobs::NONE, |sum, job| sum.plus(ReadyJobs::one(job.priority)));
        let bucket = self.bucket.index();
        tracing::info!(bucket, %topic, given = given.count, "returned the jobs of an unanswered pop");
        if given.count > 0 {
            self.context.waiters.ready(topic, self.bucket, given);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Pops> {
        self.pops.lock().expect("no thread panics while holding this lock")
    }
}

#[cfg(test)]
mod tests;
