//! Dispatches one transition to all buckets, with one coalescer per server of the store.

use std::sync::Arc;

use futures::future::join_all;

use crate::queue::batching::coalescer::Coalescer;
use crate::{
    job::{Bucket, Buckets},
    store::{Parts, Store, StoreError, StoreResults},
};

/// Coalescers of one transition, one for each server of the store.
pub struct Dispatcher<I, O> {
    /// Returns the bucket that represents the server of a job.
    server_of: Box<dyn Fn(&I) -> Bucket + Send + Sync>,
    /// Indexed by bucket; only buckets that represent a server are used.
    coalescers: Vec<Coalescer<I, O>>,
}

impl<I: Send + 'static, O: Send + 'static> Dispatcher<I, O> {
    pub fn new(
        store: &Arc<dyn Store>,
        bucket_of: fn(&I, Buckets) -> Bucket,
        make: impl Fn() -> Coalescer<I, O>,
    ) -> Self {
        let (store, buckets) = (Arc::clone(store), store.buckets());
        let server_of = move |job: &I| store.representative(bucket_of(job, buckets));
        Self { server_of: Box::new(server_of), coalescers: buckets.all().map(|_| make()).collect() }
    }

    #[cfg(test)]
    pub fn to_one(coalescer: Coalescer<I, O>) -> Self {
        Self { server_of: Box::new(|_| Bucket::FIRST), coalescers: vec![coalescer] }
    }

    /// Submits jobs to all servers concurrently; returns one result per job, in their order.
    pub async fn submit(&self, jobs: Vec<I>) -> StoreResults<O> {
        if let [job] = &jobs[..] {
            let server = (self.server_of)(job);
            return self.coalescers[server.index()].submit(jobs).await;
        }
        let (parts, order) = divide(jobs, &self.server_of);
        let calls =
            parts.into_iter().map(|(first, jobs)| self.coalescers[first.index()].submit(jobs));
        order.restore(join_all(calls).await)
    }
}

/// The original order of jobs that were divided by bucket.
pub enum Order {
    /// This number of jobs in one part, in their order.
    OnePart(usize),
    /// For each job, the index of its part.
    Parts(Vec<usize>),
}

/// Divides jobs by bucket; jobs of the same bucket keep their order.
pub fn divide<I>(jobs: Vec<I>, bucket: impl Fn(&I) -> Bucket) -> (Parts<Vec<I>>, Order) {
    if let Some(first) = jobs.first().map(&bucket)
        && jobs[1..].iter().all(|job| bucket(job) == first)
    {
        let order = Order::OnePart(jobs.len());
        return (vec![(first, jobs)], order);
    }
    let mut parts: Parts<Vec<I>> = Vec::new();
    let mut order = Vec::with_capacity(jobs.len());
    for job in jobs {
        let bucket = bucket(&job);
        let known = parts.iter().position(|(known, _)| *known == bucket);
        let part = known.unwrap_or_else(|| {
            parts.push((bucket, Vec::new()));
            parts.len() - 1
        });
        parts[part].1.push(job);
        order.push(part);
    }
    (parts, Order::Parts(order))
}

impl Order {
    /// Merges the results of all parts into the original order of the jobs.
    pub fn restore<O>(self, mut parts: Vec<StoreResults<O>>) -> StoreResults<O> {
        let missing = || Err(StoreError::unreadable("fewer replies than jobs"));
        match self {
            Self::OnePart(count) => {
                let mut outcomes = parts.pop().unwrap_or_default();
                outcomes.resize_with(count, missing);
                outcomes
            }
            Self::Parts(order) => {
                let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
                let mut next = |part: usize| parts.get_mut(part).and_then(Iterator::next);
                order.into_iter().map(|part| next(part).unwrap_or_else(missing)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_returns_to_its_job_and_a_missing_one_fails() {
        let buckets: Vec<Bucket> = Buckets::SIXTEEN.all().collect();
        let (parts, order) = divide(vec![3_usize, 1, 3, 2, 1], |&n| buckets[n]);
        let of = |n: usize, count: usize| (buckets[n], vec![n; count]);
        assert_eq!(parts, [of(3, 2), of(1, 2), of(2, 1)]);
        let outcomes = vec![
            vec![Ok("3a"), Ok("3b")],
            vec![Ok("1a"), Err(StoreError::unavailable("gone"))],
            vec![],
        ];
        let restored: Vec<Option<&str>> =
            order.restore(outcomes).into_iter().map(Result::ok).collect();
        assert_eq!(restored, [Some("3a"), Some("1a"), Some("3b"), None, None]);
        let (parts, order) = divide(vec![2_usize, 2], |&n| buckets[n]);
        assert_eq!(parts, [of(2, 2)]);
        let restored: Vec<Option<&str>> =
            order.restore(vec![vec![Ok("2a")]]).into_iter().map(Result::ok).collect();
        assert_eq!(restored, [Some("2a"), None]);
    }
}
