//! Popping, with and without waiting.
//!
//! A pop is served in the task that asked for it: it takes its places, looks, and sleeps until
//! one of its topics is marked. Many that wake at once meet again in the coalescers and share
//! one call. If the task is dropped, because its client hung up, its places pass their wake-up on
//! and whatever was reserved for it is given back.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{delivery::pending_delivery::PendingDelivery, service::Queue, transitions::PopFrom};
use crate::{
    job::{Bucket, Millis, Topic},
    store::{Applied, PopRequest, StoreError},
};

/// How often buckets are asked that have jobs and give fewer than are wanted, beside once each.
const EXTRA_CALLS: usize = 8;

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
    /// So many bytes of bodies are enough: the jobs beyond are left to the next pop.
    pub enough: usize,
}

impl Queue {
    /// Reserves ready jobs, waiting for the first; none when the wait is over. A bucket that is
    /// away does not end the wait: jobs come from the others, and from it when it is back.
    ///
    /// # Errors
    /// The store's, if there was nothing and not every bucket could be asked at the end, or a call
    /// had no answer and may still have reserved something.
    pub async fn pop(&self, pop: Pop) -> Result<PendingDelivery, StoreError> {
        let end = Instant::now() + pop.wait;
        let places = self.waiters.register(&pop.topics);
        let mut trouble = Trouble::default();
        if let Some(delivery) = self.take(&pop, &mut trouble).await {
            return Ok(delivery);
        }
        if let Err(error) = self.peeks.peek(&pop.topics).await {
            trouble.away = Some(error);
        }
        loop {
            let marked = places.marked();
            if let Some(delivery) = self.take(&pop, &mut trouble).await {
                return Ok(delivery);
            }
            if Instant::now() >= end {
                return self.last_try(&pop, trouble).await;
            }
            tokio::select! {
                () = marked => {}
                () = tokio::time::sleep_until(end) => {}
                () = self.no_waiting.cancelled() => {
                    return self.unsure(&trouble).map_or(Ok(PendingDelivery::default()), Err);
                }
            }
        }
    }

    /// What was away may be back by now, if there was a wait.
    async fn last_try(
        &self,
        pop: &Pop,
        mut trouble: Trouble,
    ) -> Result<PendingDelivery, StoreError> {
        if trouble.away.is_some() && !pop.wait.is_zero() {
            trouble.away = self.peeks.peek(&pop.topics).await.err();
            if trouble.away.is_none()
                && let Some(delivery) = self.take(pop, &mut trouble).await
            {
                return Ok(delivery);
            }
        }
        let error = self.unsure(&trouble).or(trouble.away);
        error.map_or(Ok(PendingDelivery::default()), Err)
    }

    /// The error of a call that may have reserved something, unless that is given back by now.
    fn unsure(&self, trouble: &Trouble) -> Option<StoreError> {
        let is_open = |(bucket, error): &(&Bucket, &StoreError)| {
            matches!(error, StoreError::Unreadable { .. })
                || !self.unanswered[bucket.index()].is_settled()
        };
        trouble.unanswered.iter().find(is_open).map(|(_, error)| error.clone())
    }

    /// Pops where there may be something, one server after another.
    async fn take(&self, pop: &Pop, trouble: &mut Trouble) -> Option<PendingDelivery> {
        let mut delivery = PendingDelivery::default();
        for topic in pop.topics.iter().filter(|topic| !self.topics.is_paused(topic)) {
            // A call whose bodies have become too large leaves the rest to the next call.
            for _ in 0..EXTRA_CALLS + usize::from(self.store.buckets().get()) {
                let got = u16::try_from(delivery.jobs().len()).unwrap_or(u16::MAX);
                let rest = pop.count.saturating_sub(got);
                if rest == 0 || delivery.bytes() >= pop.enough {
                    return Some(delivery);
                }
                let server = |bucket| self.store.representative(bucket);
                let claims = self.waiters.claim(topic, rest, server);
                if claims.is_empty() {
                    break;
                }
                let is_away = !self.pop_claimed(pop, topic, claims, &mut delivery, trouble).await;
                // What is in hand must not wait for a server that does not answer.
                if is_away && !delivery.jobs().is_empty() {
                    return Some(delivery);
                }
            }
        }
        Some(delivery).filter(|delivery| !delivery.jobs().is_empty())
    }

    /// Pops what was claimed; answers whether all of it could be asked for.
    async fn pop_claimed(
        &self,
        pop: &Pop,
        topic: &Topic,
        claims: Vec<(Bucket, u16)>,
        delivery: &mut PendingDelivery,
        trouble: &mut Trouble,
    ) -> bool {
        let want = |&(bucket, count): &(Bucket, u16)| PopFrom {
            bucket,
            want: PopRequest { topic: topic.clone(), count, ttr: pop.ttr },
        };
        let pops = claims.iter().map(want).collect();
        let mut all = true;
        for ((bucket, _), outcome) in
            claims.into_iter().zip(self.transitions.pop.submit(pops).await)
        {
            match outcome {
                Ok(more) => delivery.join(more),
                Err(error) => {
                    trouble.note(bucket, error);
                    all = false;
                }
            }
        }
        all
    }
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
        self.away = Some(error.of_read());
    }
}
