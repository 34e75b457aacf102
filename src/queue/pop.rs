//! Popping, with and without waiting.
//!
//! The task of the request serves its pop. It registers the pop with each topic, looks for jobs,
//! and sleeps until one of the topics is marked. Many pops that wake at once meet in the coalescers
//! and share one call. If the client disconnects, the task is dropped. Its registration then passes
//! the wake-up on, and the jobs reserved for it are given back.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{
    delivery::pending_delivery::PendingDelivery, service::Queue, transitions::PopFrom,
    waiters::Waiters,
};
use crate::{
    job::{Bucket, Consumer, Millis, Topic},
    store::{Applied, PopRequest, ReadyJobs, StoreError},
};

/// Maximum number of rounds in addition to one per bucket, if buckets give fewer jobs than wanted.
/// Rounds that end expired jobs do not count: each leaves fewer of them before the others.
const EXTRA_CALLS: usize = 8;

/// The pop that a client requests.
#[derive(Debug, Clone)]
pub struct Pop {
    /// Topics to pop from; earlier ones first.
    pub topics: Vec<Topic>,
    /// Maximum number of jobs.
    pub count: u16,
    /// TTR that replaces the TTR of each job.
    pub ttr: Option<Millis>,
    /// Name of the consumer, if the request gave one.
    pub consumer: Option<Consumer>,
    /// How long to wait for the first job.
    pub wait: Duration,
    /// Total size of bodies, in bytes, at which the pop ends. Further jobs are left to the next
    /// pop.
    pub enough: usize,
}

impl Queue {
    /// Reserves ready jobs, and waits for the first one. Returns no jobs if the wait ends without
    /// any. An unavailable bucket does not end the wait: other buckets may get jobs, and the bucket
    /// may become available again.
    ///
    /// # Errors
    /// The error of the store, if no job was found and either a bucket was still unavailable at the
    /// end, or a call without an answer may have reserved jobs.
    pub async fn pop(&self, pop: Pop) -> Result<PendingDelivery, StoreError> {
        let end = Instant::now() + pop.wait;
        let places = self.waiters.register(&pop.topics);
        let mut trouble = Trouble::default();
        if let Some(delivery) = self.take(&pop, &mut trouble).await {
            return Ok(delivery);
        }
        if let Err(error) = self.peeks.peek(&pop.topics).await {
            trouble.unavailable = Some(error);
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

    /// Tries once more after the wait, since an unavailable bucket may be available again.
    async fn last_try(
        &self,
        pop: &Pop,
        mut trouble: Trouble,
    ) -> Result<PendingDelivery, StoreError> {
        if trouble.unavailable.is_some() && !pop.wait.is_zero() {
            trouble.unavailable = self.peeks.peek(&pop.topics).await.err();
            if trouble.unavailable.is_none()
                && let Some(delivery) = self.take(pop, &mut trouble).await
            {
                return Ok(delivery);
            }
        }
        let error = self.unsure(&trouble).or(trouble.unavailable);
        error.map_or(Ok(PendingDelivery::default()), Err)
    }

    /// Returns the error of a call that may have reserved jobs, unless these were given back
    /// already.
    fn unsure(&self, trouble: &Trouble) -> Option<StoreError> {
        let is_open = |(bucket, error): &(&Bucket, &StoreError)| {
            matches!(error, StoreError::Unreadable { .. })
                || !self.unanswered[bucket.index()].is_settled()
        };
        trouble.unanswered.iter().find(is_open).map(|(_, error)| error.clone())
    }

    /// Pops from marked buckets, with one call for each server of the store, one after another.
    async fn take(&self, pop: &Pop, trouble: &mut Trouble) -> Option<PendingDelivery> {
        let mut delivery = PendingDelivery::default();
        // A call stops at its limit of body bytes and leaves further jobs to the next call.
        let mut rounds = EXTRA_CALLS + usize::from(self.store.buckets().get());
        while rounds > 0 {
            let got = u16::try_from(delivery.jobs().len()).unwrap_or(u16::MAX);
            let mut claims = self.claim(pop, pop.count.saturating_sub(got));
            if claims.all.is_empty() {
                break;
            }
            while let Some(own) = claims.take_server(|bucket| self.store.representative(bucket)) {
                let is_available = self.pop_claimed(pop, own, &mut delivery, trouble).await;
                // Jobs that are already reserved must not wait for a server that does not answer.
                if !is_available && !delivery.jobs().is_empty() || delivery.bytes() >= pop.enough {
                    return Some(delivery);
                }
            }
            if !std::mem::take(&mut delivery.has_ended_jobs) {
                rounds -= 1;
            }
        }
        Some(delivery).filter(|delivery| !delivery.jobs().is_empty())
    }

    /// Claims up to `count` jobs, those of earlier topics first.
    fn claim(&self, pop: &Pop, count: u16) -> Claims<'_> {
        let mut claims = Claims { waiters: &self.waiters, all: Vec::new() };
        let mut rest = count;
        for topic in pop.topics.iter().filter(|topic| !self.topics.is_paused(topic)) {
            if rest == 0 {
                break;
            }
            for (bucket, jobs) in self.waiters.claim(topic, rest) {
                rest = rest.saturating_sub(u16::try_from(jobs.count).unwrap_or(u16::MAX));
                claims.all.push((topic.clone(), bucket, jobs));
            }
        }
        claims
    }

    /// Pops the claimed jobs; returns whether every bucket answered.
    async fn pop_claimed(
        &self,
        pop: &Pop,
        claims: Vec<Claim>,
        delivery: &mut PendingDelivery,
        trouble: &mut Trouble,
    ) -> bool {
        let want = |(topic, bucket, jobs): &Claim| PopFrom {
            bucket: *bucket,
            want: PopRequest {
                topic: topic.clone(),
                count: u16::try_from(jobs.count).unwrap_or(u16::MAX),
                ttr: pop.ttr,
                consumer: pop.consumer.clone(),
            },
        };
        let pops = claims.iter().map(want).collect();
        let mut all = true;
        for ((_, bucket, _), outcome) in
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

/// Jobs of a topic in a bucket that one pop may take.
type Claim = (Topic, Bucket, ReadyJobs);

/// Claims of one pop that no call has requested yet. When dropped, they are marked again for other
/// pops.
struct Claims<'a> {
    waiters: &'a Waiters,
    all: Vec<Claim>,
}

impl Claims<'_> {
    /// Takes all claims on the server of the first one.
    fn take_server(&mut self, server: impl Fn(Bucket) -> Bucket) -> Option<Vec<Claim>> {
        let first = server(self.all.first()?.1);
        Some(self.all.extract_if(.., |(_, bucket, _)| server(*bucket) == first).collect())
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for (topic, bucket, jobs) in &self.all {
            self.waiters.mark(topic, *bucket, *jobs);
        }
    }
}

/// Errors of one pop so far.
#[derive(Default)]
struct Trouble {
    /// Latest error of an unavailable bucket.
    unavailable: Option<StoreError>,
    /// Buckets where a call without an answer may have reserved jobs.
    unanswered: BTreeMap<Bucket, StoreError>,
}

impl Trouble {
    fn note(&mut self, bucket: Bucket, error: StoreError) {
        if error.applied() == Applied::Unknown {
            self.unanswered.insert(bucket, error.clone());
        }
        self.unavailable = Some(error.of_read());
    }
}
