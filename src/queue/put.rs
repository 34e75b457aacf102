//! Putting jobs, with defaults and generated ids.

use std::collections::BTreeSet;

use super::{batching::sticky::Part, error::QueueError, service::Queue};
use crate::{
    job::{
        Bucket, JobId, NewJob, OnConflict, PolicyFields, Refusal, Schedule, Topic, TopicSettings,
    },
    store::{Applied, Clock, Placed, StoreError},
};

/// Maximum number of ids that are generated for a job. An id that exists already, or whose bucket
/// is unavailable, is replaced by another.
const ID_ATTEMPTS: usize = 8;

/// The put that a client requests; a field that is `None` takes its default.
#[derive(Debug, Clone)]
pub struct Put {
    /// `None` requests a generated id.
    pub id: Option<JobId>,
    /// The topic from which consumers pop it.
    pub topic: Topic,
    /// JSON text.
    pub body: bytes::Bytes,
    /// When the job becomes due.
    pub schedule: Schedule,
    /// The fields of the policy that the client sets.
    pub policy: PolicyFields,
    /// Action if a job with this id exists.
    pub on_conflict: OnConflict,
}

impl Queue {
    /// Puts jobs; each has its own result, in the given order. A job with a generated id goes to
    /// another bucket if one is unavailable.
    pub async fn put(&self, puts: Vec<Put>) -> Vec<Result<(JobId, Placed), QueueError>> {
        let made: Vec<bool> = puts.iter().map(|put| put.id.is_none()).collect();
        let buckets = self.store.buckets();
        let part = self.sticky.take(puts.len(), buckets);
        let mut jobs: Vec<NewJob> = {
            let topics = self.topics.current();
            puts.into_iter().map(|put| self.fill_in(put, &topics, part)).collect()
        };
        if !made.contains(&true) {
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
            let replies = self.submit_each(jobs, &self.transitions.put).await;
            return ids.into_iter().zip(replies).map(|(id, reply)| Ok((id, reply?))).collect();
        }
        let mut replies = self.submit_each(jobs.clone(), &self.transitions.put).await;
        let mut unavailable: BTreeSet<Bucket> = BTreeSet::new();
        for _ in 0..ID_ATTEMPTS {
            let again: Vec<usize> = (0..jobs.len())
                .filter(|&index| made[index] && is_worth_another_id(&replies[index]))
                .collect();
            for &index in &again {
                let bucket = buckets.of(&jobs[index].id);
                if let Err(QueueError::Store(StoreError::Replaced { .. })) = &replies[index] {
                    unavailable.insert(bucket);
                } else if let Err(QueueError::Store(_)) = &replies[index]
                    && !unavailable.contains(&bucket)
                {
                    let server = self.store.representative(bucket);
                    let has_same_server = |&b: &Bucket| self.store.representative(b) == server;
                    unavailable.extend(buckets.all().filter(has_same_server));
                }
            }
            if again.is_empty() || unavailable.len() == usize::from(buckets.get()) {
                break;
            }
            for &index in &again {
                jobs[index].id = match unavailable.is_empty() {
                    true => self.new_id(|bucket| part.has(bucket)),
                    false => self.new_id(|bucket| !unavailable.contains(&bucket)),
                };
            }
            let puts = again.iter().map(|&index| jobs[index].clone()).collect();
            let placed = self.submit_each(puts, &self.transitions.put).await;
            again.into_iter().zip(placed).for_each(|(index, reply)| replies[index] = reply);
        }
        let ids = jobs.into_iter().map(|job| job.id);
        ids.zip(replies).map(|(id, reply)| Ok((id, reply?))).collect()
    }

    /// Returns the job of a put, in the current bucket if it has no id.
    pub(super) fn with_defaults(&self, put: Put) -> NewJob {
        let part = self.sticky.take(1, self.store.buckets());
        self.fill_in(put, &self.topics.current(), part)
    }

    fn fill_in(&self, put: Put, topics: &TopicSettings, part: Part) -> NewJob {
        let of_topic = topics.defaults.get(&put.topic);
        // A put with a generated id must not replace or return a job that has the same id by
        // chance.
        let on_conflict = if put.id.is_some() { put.on_conflict } else { OnConflict::Reject };
        NewJob {
            id: put.id.unwrap_or_else(|| self.new_id(|bucket| part.has(bucket))),
            topic: put.topic,
            body: put.body,
            schedule: put.schedule,
            policy: put.policy.or_defaults(of_topic, &self.settings.defaults),
            on_conflict,
        }
    }

    /// Generates an id whose bucket `fits`. The clock is used only to order ids.
    fn new_id(&self, fits: impl Fn(Bucket) -> bool) -> JobId {
        let buckets = self.store.buckets();
        self.ids.next(Clock::Own.now().floor, rand::random(), |id| fits(buckets.of(id)))
    }
}

/// Returns whether the put failed without a change, so that another id may succeed.
fn is_worth_another_id(reply: &Result<Placed, QueueError>) -> bool {
    match reply {
        Err(QueueError::Refused(Refusal::Exists(_))) => true,
        Err(QueueError::Store(
            StoreError::Unavailable { applied, .. } | StoreError::Replaced { applied },
        )) => *applied == Applied::No,
        Err(QueueError::Store(StoreError::Unsafe { .. })) => true,
        _ => false,
    }
}
