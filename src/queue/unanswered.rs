//! Pops that ended without an answer: what they have reserved is given back.
//!
//! A pop whose answer is lost, or whose confirmation is missing, may have reserved jobs that reach
//! no consumer. Their reservations begin with the pop's nonce, so they are found among the reserved
//! jobs of its topics and given back, the attempt uncounted. That costs a scan, and only then.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::transitions::Context;
use crate::{
    job::{Bucket, Nonce, Reservation, Topic},
    store::{Claim, StoreResult},
};

/// Most pops of one bucket that wait for this; the jobs of others come back after their TTR.
const MOST: usize = 1_000;
/// The pause after the first scan, doubled up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a pop is looked for that has reserved nothing yet: a call that was given up may be
/// carried out later, by a server that stood still or over a network that did.
const LOOKED_FOR: Duration = Duration::from_secs(60);
/// After so long the longest TTR is over.
const GIVEN_UP: Duration = Duration::from_secs(24 * 3_600);

/// The unanswered pops of one bucket.
pub struct Unanswered {
    bucket: Bucket,
    context: Context,
    /// Each is tried once more, and then no more.
    stop: CancellationToken,
    pops: Mutex<Pops>,
    added: Notify,
}

#[derive(Default)]
struct Pops {
    waiting: Vec<Pop>,
    /// A task sees to them.
    in_hand: bool,
}

#[derive(Clone)]
struct Pop {
    nonce: Nonce,
    topics: Vec<Topic>,
    since: Instant,
    /// It had reserved something, all of which is found by the next scan that comes to its end.
    found: bool,
}

impl Unanswered {
    pub fn new(bucket: Bucket, context: Context, stop: CancellationToken) -> Self {
        Self { bucket, context, stop, pops: Mutex::default(), added: Notify::new() }
    }

    /// Whether everything is answered or given back.
    pub fn is_settled(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Sees to it that what this pop has reserved is given back.
    pub fn add(self: &Arc<Self>, nonce: Nonce, topics: Vec<Topic>) {
        let mut pops = self.lock();
        if pops.waiting.len() >= MOST {
            let bucket = self.bucket.index();
            tracing::warn!(
                bucket,
                "too many pops without an answer; their jobs return after their TTR"
            );
            return;
        }
        pops.waiting.push(Pop { nonce, topics, since: Instant::now(), found: false });
        if std::mem::replace(&mut pops.in_hand, true) {
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

    /// Gives back what there is; answers whether to go on later.
    async fn step(&self) -> bool {
        let last = self.stop.is_cancelled();
        let pops = self.lock().waiting.clone();
        let asked: HashSet<Nonce> = pops.iter().map(|pop| pop.nonce).collect();
        let mut found = HashSet::new();
        let scanned = self.scan(&pops, &asked, &mut found).await;
        let mut now = self.lock();
        match scanned {
            // A scan may see a part of a pop that was carried out meanwhile; the one after it sees all.
            Ok(()) => now.waiting.retain(|pop| {
                let is_over = pop.found || pop.since.elapsed() > LOOKED_FOR;
                !(is_over && asked.contains(&pop.nonce))
            }),
            Err(error) => {
                // A topic that can never be read ends the search as well: its TTRs decide.
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
        now.in_hand = now.waiting.iter().any(|pop| !last || is_new(pop));
        now.in_hand
    }

    /// Gives back what these pops have reserved; `found` tells which of them had reserved anything.
    async fn scan(
        &self,
        pops: &[Pop],
        asked: &HashSet<Nonce>,
        found: &mut HashSet<Nonce>,
    ) -> StoreResult<()> {
        let mut topics: Vec<&Topic> = pops.iter().flat_map(|pop| &pop.topics).collect();
        topics.sort_unstable();
        topics.dedup();
        // A topic that cannot be read does not keep those of the others.
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
            let nonce = |held: &Claim| held.reservation.map(Reservation::nonce);
            let is_theirs = |held: &Claim| nonce(held).is_some_and(|n| asked.contains(&n));
            let theirs: Vec<Claim> = page.held.into_iter().filter(is_theirs).collect();
            found.extend(theirs.iter().filter_map(nonce));
            self.unpop(topic, theirs).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    async fn unpop(&self, topic: &Topic, held: Vec<Claim>) -> StoreResult<()> {
        if held.is_empty() {
            return Ok(());
        }
        let outcomes = self.context.store.unpop(vec![(self.bucket, held)]).await;
        let replies: Vec<Vec<_>> = outcomes.into_iter().collect::<StoreResult<_>>()?;
        let given = replies.iter().flatten().flatten().count() as u64;
        let bucket = self.bucket.index();
        tracing::info!(bucket, %topic, given, "gave back what an unanswered pop had reserved");
        if given > 0 {
            self.context.waiters.ready(topic, self.bucket, given);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Pops> {
        self.pops.lock().expect("no thread panics while holding this lock")
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{
        job::{Buckets, JobId, Millis, NewJob, OnConflict, Schedule, State},
        queue::{stats::Stats, timer_handle::TimerHandle, waiters::Waiters},
        store::{Clock, Options, PopRequest, Store, file::FileStore},
    };

    const HOUR: Millis = Millis::new(3_600_000);

    fn topic() -> Topic {
        "t".parse().expect("a topic")
    }

    fn job(id: &str) -> NewJob {
        NewJob {
            id: id.parse().expect("an id"),
            topic: topic(),
            body: "null".into(),
            schedule: Schedule::In(Millis::ZERO),
            ttr: HOUR,
            max_attempts: 1,
            backoff: None,
            dead_retention: HOUR,
            on_conflict: OnConflict::Reject,
        }
    }

    struct Bench {
        context: Context,
        unanswered: Arc<Unanswered>,
        _dir: tempfile::TempDir,
    }

    impl Bench {
        async fn with_jobs(ids: &[&str]) -> Self {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let options = Options { buckets: Some(Buckets::ONE), clock: Clock::Own };
            let store = Arc::new(FileStore::open(dir.path(), options).expect("a new store"));
            let jobs = ids.iter().map(|id| job(id)).collect();
            assert!(store.put(vec![(Bucket::FIRST, jobs)]).await[0].is_ok());
            let context = Context {
                store,
                timer: Arc::new(TimerHandle::new(Buckets::ONE)),
                waiters: Arc::new(Waiters::new(Buckets::ONE, Box::new(|_| {}))),
                calls: TaskTracker::new(),
                stats: Arc::new(Stats::default()),
            };
            let stop = CancellationToken::new();
            let unanswered = Unanswered::new(Bucket::FIRST, context.clone(), stop);
            Self { context, unanswered: Arc::new(unanswered), _dir: dir }
        }

        async fn pop(&self, nonce: Nonce, count: u16) {
            let want = PopRequest { topic: topic(), count, ttr: None };
            let popped = self.context.store.pop(vec![(Bucket::FIRST, (nonce, vec![want]))]).await;
            assert_eq!(popped[0].as_ref().expect("popped")[0].jobs.len(), usize::from(count));
        }

        async fn job(&self, id: &str) -> (State, u32) {
            let id: JobId = id.parse().expect("an id");
            let job = self.context.store.get(Bucket::FIRST, id).await.expect("read");
            let job = job.expect("it lives");
            (job.state, job.attempt)
        }

        /// Waits until all tasks have ended.
        async fn ended(&self) {
            self.context.calls.close();
            let ended =
                tokio::time::timeout(Duration::from_secs(20), self.context.calls.wait()).await;
            ended.expect("it comes to an end");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_unanswered_pop_has_reserved_is_given_back_and_what_others_have_is_not() {
        let bench = Bench::with_jobs(&["a", "b", "c"]).await;
        let (answered, lost) = (Nonce::new(1 << 12), Nonce::new(2 << 12));
        bench.pop(answered, 1).await;
        bench.pop(lost, 2).await;
        bench.unanswered.add(lost, vec![topic(), "other".parse().expect("a topic")]);
        assert!(!bench.unanswered.is_settled());
        bench.ended().await;
        assert!(bench.unanswered.is_settled());
        assert_eq!(bench.job("a").await, (State::Reserved, 1));
        assert_eq!(bench.job("b").await, (State::Ready, 0));
        assert_eq!(bench.job("c").await, (State::Ready, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pop_that_is_carried_out_after_it_was_given_up_is_looked_for_again() {
        let bench = Bench::with_jobs(&["a"]).await;
        let late = Nonce::new(1 << 12);
        bench.unanswered.add(late, vec![topic()]);
        tokio::time::sleep(FIRST_PAUSE / 2).await; // the first scan finds nothing, mostly
        bench.pop(late, 1).await;
        bench.ended().await;
        assert!(bench.unanswered.is_settled());
        assert_eq!(bench.job("a").await, (State::Ready, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn at_the_stop_each_unanswered_pop_is_tried_once_more_and_no_more() {
        let bench = Bench::with_jobs(&["a"]).await;
        let (lost, nothing) = (Nonce::new(1 << 12), Nonce::new(2 << 12));
        bench.unanswered.stop.cancel();
        bench.pop(lost, 1).await;
        bench.unanswered.add(nothing, vec![topic()]);
        bench.unanswered.add(lost, vec![topic()]);
        bench.ended().await; // it does not wait for what may yet be carried out
        assert_eq!(bench.job("a").await, (State::Ready, 0));
    }
    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_pop_reserves_while_it_is_looked_for_is_found_by_the_next_scan() {
        let bench = Bench::with_jobs(&["a", "b"]).await;
        let lost = Nonce::new(1 << 12);
        let unanswered = &bench.unanswered;
        // Steps by hand: no task is at it.
        unanswered.lock().waiting.push(Pop {
            nonce: lost,
            topics: vec![topic()],
            since: Instant::now(),
            found: false,
        });
        bench.pop(lost, 1).await;
        assert!(unanswered.step().await, "one was found: perhaps not yet all");
        assert_eq!(bench.job("a").await, (State::Ready, 0));
        bench.pop(lost, 2).await;
        assert!(!unanswered.step().await);
        assert!(unanswered.is_settled());
        for id in ["a", "b"] {
            assert_eq!(bench.job(id).await, (State::Ready, 0));
        }
    }
}
