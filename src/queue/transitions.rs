//! Dispatchers of all transitions.
//!
//! The call itself reports the effects on the timer and on waiting pops, not the task that
//! requested the transition: a client that disconnects after its put must not lose the wake-up for
//! its ready job.

mod effects;
mod pop;

use std::sync::Arc;

use super::{
    batching::{
        coalescer::Coalescer,
        dispatcher::{Dispatcher, divide},
    },
    context::Context,
    delivery::{
        pending_delivery::{PendingDelivery, Returner},
        unanswered::Unanswered,
    },
};
use crate::{
    job::{
        Bucket, Buckets, Change, Job, Millis, NewJob, OnConflict, Priority, State, Topic,
        UnixMillis,
    },
    store::{
        Applied, Bury, Delete, Finish, Fired, Firing, JobRef, JobRequest, Placed, Readied, Release,
        Reply, StoreError, StoreResult, StoreResults, Target, Touch, Transition, Transitioned,
        verb,
    },
};

pub use self::pop::PopFrom;

/// Size of a part of a body, in bytes, that counts as much as a job. A full batch of 1,000 has
/// about 8 MiB.
const PART: usize = 8 << 10;

pub struct Transitions {
    pub put: Dispatcher<NewJob, Reply<Placed>>,
    pub fire: Dispatcher<Firing, Reply<Fired>>,
    pub pop: Dispatcher<PopFrom, PendingDelivery>,
    pub finish: Dispatcher<Finish, Reply<Topic>>,
    pub release: Dispatcher<Release, Reply<Transitioned>>,
    pub touch: Dispatcher<Touch, Reply<UnixMillis>>,
    pub bury: Dispatcher<Bury, Reply<Transitioned>>,
    pub kick: Dispatcher<Target, Reply<Readied>>,
    pub delete: Dispatcher<Delete, Reply<State>>,
    pub reschedule: Dispatcher<(Target, Change), Reply<Job>>,
}

/// Topic, priority and `expires_after` of a job that is put.
type PutOf = (Topic, Priority, Option<Millis>);

/// Effect of a transition on the jobs of one bucket that the store has answered for.
type After<K, O> = fn(&Context, Bucket, &[K], &[Reply<O>]);

fn nothing<I>(_: &I) {}

impl Context {
    /// Creates the dispatcher of a transition. `after` runs for each bucket that has answered, with
    /// the data that `kept` took of each job.
    fn dispatcher<T, I, O, K>(
        &self,
        weight: fn(&I) -> usize,
        kept: fn(&I) -> K,
        after: After<K, O>,
    ) -> Dispatcher<I, Reply<O>>
    where
        T: Transition<Part = Vec<I>, Reply = Vec<Reply<O>>>,
        I: JobRequest + Send + 'static,
        O: Send + 'static,
        K: Send + 'static,
    {
        let bucket_of = |job: &I, buckets: Buckets| buckets.of(job.id());
        Dispatcher::new(&self.store, bucket_of, || {
            let context = self.clone();
            let limit = self.store.batch_limit();
            Coalescer::weighing(weight, limit, &self.calls, move |jobs: Vec<I>| {
                let context = context.clone();
                async move {
                    let all = context.store.buckets();
                    let (parts, order) = divide(jobs, |job| all.of(job.id()));
                    let keep = |(bucket, jobs): &(Bucket, Vec<I>)| {
                        (*bucket, jobs.iter().map(kept).collect::<Vec<K>>())
                    };
                    let asked: Vec<(Bucket, Vec<K>)> = parts.iter().map(keep).collect();
                    let outcomes = context.store.call::<T>(parts).await;
                    let each = asked.into_iter().zip(outcomes).map(|((bucket, kept), outcome)| {
                        let count = kept.len();
                        let after = |replies: &Vec<_>| after(&context, bucket, &kept, replies);
                        context.of_each(outcome.inspect(after), count)
                    });
                    order.restore(each.collect())
                }
            })
        })
    }

    /// Returns the result of a part for each of its jobs. A result that is unknown may have set
    /// deadlines.
    fn of_each<O>(&self, outcome: StoreResult<Vec<O>>, count: usize) -> StoreResults<O> {
        match outcome {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => {
                if error.applied() == Applied::Unknown {
                    self.timer.doubt();
                }
                (0..count).map(|_| Err::<O, StoreError>(error.clone())).collect()
            }
        }
    }

    /// Creates the dispatcher that gives undelivered jobs back, so that other consumers can pop
    /// them.
    pub fn unpop(&self) -> Dispatcher<JobRef, Reply<Readied>> {
        self.dispatcher::<verb::Unpop, _, _, _>(
            |_| 1,
            nothing,
            |context, bucket, _, replies| {
                let topics = replies.iter().flatten().map(|job| &job.topic);
                context.stats.count(topics, |since| since.returned += 1);
                context.readied(bucket, replies);
            },
        )
    }

    pub fn transitions(
        &self,
        returner: &Arc<Returner>,
        unanswered: &Arc<[Arc<Unanswered>]>,
    ) -> Transitions {
        Transitions {
            put: self.dispatcher::<verb::Put, _, _, _>(weight_of_put, put_of, Self::placed),
            fire: self.dispatcher::<verb::Fire, _, _, _>(
                |firing| 1 + weight_of_put(&firing.job),
                |firing| put_of(&firing.job),
                Self::fired,
            ),
            pop: self.pop(returner, unanswered),
            finish: self.dispatcher::<verb::Finish, _, _, _>(
                |finish| 1 + finish.result.as_ref().map_or(0, |result| result.len()) / PART,
                nothing,
                |context, _, _, replies| {
                    context.stats.count(replies.iter().flatten(), |since| since.finished += 1)
                },
            ),
            // Rewriting the attempt of a job takes Redis as long as two puts.
            release: self.dispatcher::<verb::Release, _, _, _>(|_| 2, nothing, Self::released),
            touch: self.dispatcher::<verb::Touch, _, _, _>(
                |_| 1,
                nothing,
                |context, bucket, _, replies| {
                    replies.iter().flatten().for_each(|&at| context.timer.wake_by(bucket, at));
                },
            ),
            bury: self.dispatcher::<verb::Bury, _, _, _>(
                |_| 2,
                nothing,
                |context, bucket, _, replies| {
                    context.count_dead(replies);
                    replies.iter().flatten().for_each(|job| context.moved(bucket, job));
                },
            ),
            kick: self.dispatcher::<verb::Kick, _, _, _>(
                |_| 1,
                nothing,
                |context, bucket, _, replies| context.readied(bucket, replies),
            ),
            delete: self.dispatcher::<verb::Delete, _, _, _>(|_| 1, nothing, |_, _, _, _| {}),
            reschedule: self.dispatcher::<verb::Reschedule, _, _, _>(
                |(_, change)| 1 + change.body.as_ref().map_or(0, |body| body.len()) / PART,
                nothing,
                Self::rescheduled,
            ),
        }
    }
}

/// Returns what the effects of a put depend on.
fn put_of(job: &NewJob) -> PutOf {
    (job.topic.clone(), job.policy.priority, job.policy.expires_after)
}

/// Returns the weight of a put: replacing a job takes Redis as long as three puts.
fn weight_of_put(job: &NewJob) -> usize {
    match job.on_conflict {
        OnConflict::Replace => 3 + job.body.len() / PART,
        OnConflict::Reject | OnConflict::Keep => 1 + job.body.len() / PART,
    }
}
