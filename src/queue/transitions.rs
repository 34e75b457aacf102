//! Dispatchers of all transitions, and their effects on the timer and on waiting pops.
//!
//! The call itself reports these effects, not the task that requested the transition: a client that
//! disconnects after its put must not lose the wake-up for its ready job.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    batching::{
        coalescer::Coalescer,
        dispatcher::{Dispatcher, divide},
        has_job_id::HasJobId,
    },
    context::Context,
    delivery::{
        pending_delivery::{PendingDelivery, Returner},
        unanswered::Unanswered,
    },
};
use crate::{
    job::{
        Bucket, Buckets, Change, Job, Millis, NewJob, Nonce, OnConflict, Priority, Refusal, State,
        Topic, UnixMillis,
    },
    store::{
        Applied, Bury, Clock, Delete, Finish, Fired, Firing, JobRef, Parts, Placed, PopRequest,
        Popped, PutOutcome, Readied, ReadyJobs, Release, Reply, StoreError, StoreResult,
        StoreResults, Target, Touch, Transition, Transitioned, verb,
    },
};

/// Size of a part of a body, in bytes, that counts as much as a job. A full batch of 1,000 has
/// about 8 MiB.
const PART: usize = 8 << 10;

#[derive(Debug, Clone)]
pub struct PopFrom {
    pub bucket: Bucket,
    pub want: PopRequest,
}

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
    /// Wakes a consumer for a job that is now ready, or the timer for one that is delayed.
    fn moved(&self, bucket: Bucket, job: &Transitioned) {
        match job.state {
            State::Ready => {
                self.waiters.ready(&job.topic, bucket, ReadyJobs::one(job.priority));
            }
            State::Delayed => self.timer.wake_by(bucket, job.due_at),
            // The time of a dead job is its former due time; the end of its retention is far in the
            // future.
            State::Reserved | State::Dead | State::Finished => {}
        }
    }

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
        I: HasJobId + Send + 'static,
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

    fn released(&self, bucket: Bucket, _: &[()], replies: &[Reply<Transitioned>]) {
        let topics = replies.iter().flatten().map(Transitioned::left);
        self.stats.count(topics, |since| since.released += 1);
        self.count_dead(replies);
        replies.iter().flatten().for_each(|job| self.moved(bucket, job));
    }

    /// Wakes a consumer for each job that is ready again, and the timer when the job expires.
    fn readied(&self, bucket: Bucket, replies: &[Reply<Readied>]) {
        for Readied { topic, priority, expires_at } in replies.iter().flatten() {
            self.waiters.ready(topic, bucket, ReadyJobs::one(*priority));
            self.wake_at_expiry(bucket, *expires_at);
        }
    }

    /// Wakes the timer when a ready job expires. A delayed job expires after it is due, and its
    /// promotion returns the next deadline.
    fn wake_at_expiry(&self, bucket: Bucket, expires_at: Option<UnixMillis>) {
        expires_at.into_iter().for_each(|at| self.timer.wake_by(bucket, at));
    }

    fn rescheduled(&self, bucket: Bucket, _: &[()], replies: &[Reply<Job>]) {
        for reply in replies {
            match reply {
                Ok(job) => {
                    self.moved(bucket, &Transitioned::of(job));
                    self.wake_at_expiry(bucket, job.policy.expires_at);
                }
                // The answer does not contain the new time.
                Err(Refusal::ChangedDamaged) => self.timer.doubt(),
                Err(_) => {}
            }
        }
    }

    fn count_dead(&self, replies: &[Reply<Transitioned>]) {
        let died = replies.iter().flatten().filter(|moved| moved.died);
        self.stats.count(died.map(|moved| &moved.topic), |since| since.dead += 1);
        let moved = replies.iter().flatten().filter_map(|moved| moved.dead_from.as_ref());
        self.stats.count(moved, |since| since.moved += 1);
    }

    fn fired(&self, bucket: Bucket, jobs: &[PutOf], replies: &[Reply<Fired>]) {
        let placed = |reply: &Reply<Fired>| match reply {
            Ok(Fired::Placed(placed)) => Ok(placed.clone()),
            Ok(Fired::Taken | Fired::Stale) => Err(Refusal::NotFound),
            Err(refusal) => Err(refusal.clone()),
        };
        self.placed(bucket, jobs, &replies.iter().map(placed).collect::<Vec<_>>());
    }

    fn placed(&self, bucket: Bucket, jobs: &[PutOf], replies: &[Reply<Placed>]) {
        let placed = |(job, reply)| match reply {
            &Ok(Placed { how: PutOutcome::Created | PutOutcome::Replaced, state, due_at }) => {
                Some((job, state, due_at))
            }
            Ok(_) | Err(_) => None,
        };
        let placed: Vec<(&PutOf, _, UnixMillis)> =
            jobs.iter().zip(replies).filter_map(placed).collect();
        self.stats.count(placed.iter().map(|((topic, ..), ..)| topic), |since| since.put += 1);
        for same in placed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            match same[0] {
                ((topic, priority, expires_after), State::Ready, _) => {
                    let jobs = ReadyJobs { count: same.len() as u64, highest: *priority };
                    self.waiters.ready(topic, bucket, jobs);
                    let earliest = same.iter().map(|&(.., at)| at).min();
                    let expires_at = earliest.zip(*expires_after).map(|(at, span)| at.after(span));
                    self.wake_at_expiry(bucket, expires_at);
                }
                _ => same.iter().for_each(|&(.., at)| self.timer.wake_by(bucket, at)),
            }
        }
    }

    fn pop(
        &self,
        returner: &Arc<Returner>,
        unanswered: &Arc<[Arc<Unanswered>]>,
    ) -> Dispatcher<PopFrom, PendingDelivery> {
        let weight = |pop: &PopFrom| usize::from(pop.want.count);
        Dispatcher::new(
            &self.store,
            |pop, _| pop.bucket,
            || {
                let (context, returner) = (self.clone(), Arc::clone(returner));
                let unanswered = Arc::clone(unanswered);
                let limit = self.store.batch_limit();
                Coalescer::weighing(weight, limit, &self.calls, move |pops| {
                    context.clone().pop_jobs(pops, Arc::clone(&returner), Arc::clone(&unanswered))
                })
            },
        )
    }

    async fn pop_jobs(
        self,
        pops: Vec<PopFrom>,
        returner: Arc<Returner>,
        unanswered: Arc<[Arc<Unanswered>]>,
    ) -> StoreResults<PendingDelivery> {
        let (asked, order) = divide(pops, |pop| pop.bucket);
        let marks: Vec<Vec<u64>> = asked
            .iter()
            .map(|(bucket, pops)| {
                let topics = pops.iter().map(|pop| &pop.want.topic);
                self.waiters.last_marks(*bucket, topics)
            })
            .collect();
        let parts = asked.iter().map(|(bucket, pops)| {
            let nonce = Nonce::new(rand::random());
            (*bucket, (nonce, pops.chunk_by(can_merge).map(together).collect()))
        });
        let parts: Parts<(Nonce, Vec<PopRequest>)> = parts.collect();
        let nonces: Vec<Nonce> = parts.iter().map(|(_, (nonce, _))| *nonce).collect();
        let began = Instant::now();
        let outcomes = self.store.pop(parts).await;
        let each = asked.iter().zip(marks).zip(nonces).zip(outcomes).map(
            |((((bucket, pops), marks), nonce), outcome)| match outcome {
                Ok(popped) => {
                    self.popped(*bucket, pops, &marks, &popped);
                    share(pops, popped, &returner, began)
                }
                Err(error) => {
                    let topics = pops.iter().map(|pop| pop.want.topic.clone());
                    if error.applied() == Applied::Unknown {
                        unanswered[bucket.index()].add(nonce, topics.clone().collect());
                    }
                    // When the bucket is available again, the timer polls it for waiting pops
                    // without a mark.
                    topics.for_each(|topic| self.waiters.unmark(&topic, *bucket));
                    self.of_each(Err(error), pops.len())
                }
            },
        );
        order.restore(each.collect())
    }

    fn popped(&self, bucket: Bucket, pops: &[PopFrom], marks: &[u64], popped: &[Popped]) {
        let jobs = || popped.iter().flat_map(|popped| &popped.jobs);
        jobs().for_each(|job| self.timer.wake_by(bucket, job.reserved_until));
        self.stats.count(jobs().map(|job| &job.topic), |since| since.popped += 1);
        let now = Clock::Own.now().floor;
        self.lateness.count(now, jobs().map(|job| (job.due_at, job.popped_at())));
        let mut index = 0;
        for (same, popped) in pops.chunk_by(can_merge).zip(popped) {
            let last = popped.jobs.last().map(|job| job.policy.priority);
            let topic = &same[0].want.topic;
            self.waiters.left(topic, bucket, marks[index], (popped.left, last));
            for (target, jobs) in &popped.moved {
                self.waiters.ready(target, bucket, *jobs);
                self.stats.count([topic], |since| since.moved += jobs.count);
            }
            index += same.len();
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

/// Returns whether one request to the store can serve both pops.
fn can_merge(a: &PopFrom, b: &PopFrom) -> bool {
    let PopRequest { topic, count: _, ttr, consumer } = &a.want;
    (topic, ttr, consumer) == (&b.want.topic, &b.want.ttr, &b.want.consumer)
}

fn together(same: &[PopFrom]) -> PopRequest {
    let counts = same.iter().map(|pop| pop.want.count);
    PopRequest { count: counts.fold(0, u16::saturating_add), ..same[0].want.clone() }
}

/// Divides the jobs of merged pops among these pops.
fn share(
    pops: &[PopFrom],
    popped: Vec<Popped>,
    returner: &Arc<Returner>,
    began: Instant,
) -> StoreResults<PendingDelivery> {
    let mut all = Vec::with_capacity(pops.len());
    for (same, popped) in pops.chunk_by(can_merge).zip(popped) {
        let mut jobs = popped.jobs.into_iter();
        for pop in same {
            let own = jobs.by_ref().take(pop.want.count.into()).collect();
            all.push(Ok(PendingDelivery::new(own, Arc::clone(returner), began)));
        }
    }
    all
}
