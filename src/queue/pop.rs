//! Popping, with and without waiting.
//!
//! A pop is served in the task that asked for it: it takes its places, looks, and sleeps until
//! somebody marks one of its topics. Many who wake at once meet again in the coalescers and share
//! one call. If the task is dropped, because its client hung up, its places pass their wake-up on
//! and whatever was reserved for it is given back.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::{Handed, Queue};
use crate::{
    job::{Bucket, Millis, Topic},
    store::{Applied, Outcome, StoreError, Want},
};

/// How often a bucket is asked that has jobs and gives fewer than are wanted.
const CALLS: usize = 8;

/// How long a look into one bucket may hold up what is found in the others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A pop as a client asks for it.
#[derive(Debug, Clone)]
pub struct Pop {
    /// Where from; earlier topics first.
    pub topics: Vec<Topic>,
    /// At most so many jobs.
    pub count: u16,
    /// Another TTR than each job's own.
    pub ttr: Option<Millis>,
    /// How long to wait for the first job.
    pub wait: Duration,
}

impl Queue {
    /// Reserves ready jobs, waiting for the first; none when the wait is over. A bucket that is
    /// away does not end the wait: jobs come from the others, and from it when it is back.
    ///
    /// # Errors
    /// The store's, if there was nothing and not every bucket could be asked at the end, or a call
    /// had no answer and may still have reserved something.
    pub async fn pop(&self, pop: Pop) -> Result<Handed, StoreError> {
        let end = Instant::now() + pop.wait;
        let places = self.waiters.register(&pop.topics);
        let mut trouble = Trouble::default();
        if let Some(handed) = self.take(&pop, &mut trouble).await {
            return Ok(handed);
        }
        if let Err(error) = self.look(&pop.topics).await {
            trouble.away = Some(error);
        }
        loop {
            let marked = places.marked();
            if let Some(handed) = self.take(&pop, &mut trouble).await {
                return Ok(handed);
            }
            if Instant::now() >= end {
                return self.last_try(&pop, trouble).await;
            }
            tokio::select! {
                () = marked => {}
                () = tokio::time::sleep_until(end) => {}
                () = self.no_waiting.cancelled() => {
                    return self.unsure(&trouble).map_or(Ok(Handed::default()), Err);
                }
            }
        }
    }

    /// What was away may be back by now, if there was a wait.
    async fn last_try(&self, pop: &Pop, mut trouble: Trouble) -> Result<Handed, StoreError> {
        if trouble.away.is_some() && !pop.wait.is_zero() {
            trouble.away = self.look(&pop.topics).await.err();
            if trouble.away.is_none()
                && let Some(handed) = self.take(pop, &mut trouble).await
            {
                return Ok(handed);
            }
        }
        let error = self.unsure(&trouble).or(trouble.away);
        error.map_or(Ok(Handed::default()), Err)
    }

    /// The error of a call that may have reserved something, unless that is given back by now.
    fn unsure(&self, trouble: &Trouble) -> Option<StoreError> {
        let is_open = |(bucket, error): &(&Bucket, &StoreError)| {
            matches!(error, StoreError::Unreadable { .. })
                || !self.lanes[bucket.index()].unanswered.is_settled()
        };
        trouble.unanswered.iter().find(is_open).map(|(_, error)| error.clone())
    }

    /// Pops where there may be something.
    async fn take(&self, pop: &Pop, trouble: &mut Trouble) -> Option<Handed> {
        let mut handed = Handed::default();
        let mut away: Option<Bucket> = None;
        for topic in pop.topics.iter().filter(|topic| !self.topics.is_paused(topic)) {
            for mark in self.waiters.marks(topic, pop.count) {
                let got = u16::try_from(handed.jobs().len()).unwrap_or(u16::MAX);
                let count = pop.count.saturating_sub(got);
                // What is in hand must not wait for a server that does not answer.
                if count == 0 || (got > 0 && away.is_some()) {
                    return Some(handed);
                }
                if away.is_some_and(|bucket| self.store.are_together(bucket, mark.bucket)) {
                    self.waiters.unmark(topic, mark);
                    continue;
                }
                let want = Want { topic: topic.clone(), count, ttr: pop.ttr };
                let (more, left) = match self.pop_from(mark.bucket, want).await {
                    Ok(popped) => popped,
                    Err(error) => {
                        // When the bucket is back, its timer looks for who waits without a mark.
                        self.waiters.unmark(topic, mark);
                        away = Some(mark.bucket);
                        trouble.note(mark.bucket, error);
                        continue;
                    }
                };
                handed.join(more);
                if left == 0 {
                    self.waiters.unmark(topic, mark);
                } else {
                    self.waiters.mark(topic, mark.bucket, left);
                }
            }
        }
        Some(handed).filter(|handed| !handed.jobs().is_empty())
    }

    /// Pops from one bucket; answers also how many are left there.
    async fn pop_from(&self, bucket: Bucket, want: Want) -> Outcome<(Handed, u64)> {
        let lane = &self.lanes[bucket.index()];
        let (mut all, mut left) = (Handed::default(), 0);
        // A call whose bodies have become too large leaves the rest to the next.
        for _ in 0..CALLS {
            let got = u16::try_from(all.jobs().len()).unwrap_or(u16::MAX);
            let rest = Want { count: want.count.saturating_sub(got), ..want.clone() };
            match lane.pop.submit(vec![rest]).await {
                Ok(mut popped) => {
                    let (handed, more) = popped.pop().unwrap_or_default();
                    all.join(handed);
                    left = more;
                }
                Err(error) if got == 0 => return Err(error),
                // What is in hand goes out.
                Err(_) => break,
            }
            if left == 0 || all.jobs().len() >= usize::from(want.count) {
                break;
            }
        }
        Ok((all, left))
    }

    /// Looks into every bucket and marks where there is something. The error is that of a bucket
    /// that could not be asked; the others were.
    async fn look(&self, topics: &[Topic]) -> Outcome<()> {
        let buckets = self.store.buckets().all();
        let looks = buckets.map(async |bucket| {
            let look = timeout(PATIENCE, self.store.look(bucket, topics.to_vec())).await;
            let look = look.unwrap_or_else(|_| Err(no_answer())).map_err(unchanged)?;
            for (topic, ready) in topics.iter().zip(look.ready) {
                if ready > 0 {
                    self.waiters.mark(topic, bucket, ready);
                }
            }
            Ok::<(), StoreError>(())
        });
        join_all(looks).await.into_iter().collect()
    }
}

/// A look that failed has changed nothing, whatever became of it.
fn unchanged(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { cause, .. } => StoreError::away(cause),
        other => other,
    }
}

fn no_answer() -> StoreError {
    StoreError::away(format!("a bucket did not answer within {PATIENCE:?}"))
}

/// What went wrong for one pop so far.
#[derive(Default)]
struct Trouble {
    /// Why a bucket could not be asked.
    away: Option<StoreError>,
    /// Where a call had no answer, and may have reserved something.
    unanswered: BTreeMap<Bucket, StoreError>,
}

impl Trouble {
    fn note(&mut self, bucket: Bucket, error: StoreError) {
        if error.applied() == Applied::Unknown {
            self.unanswered.insert(bucket, error.clone());
        }
        self.away = Some(unchanged(error));
    }
}
