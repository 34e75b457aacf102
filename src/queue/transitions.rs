//! Every transition of jobs: its dispatcher, and what it means to the timer and to waiting pops.
//!
//! Hints are given here, in the call itself and not by the task that asked for it: a client that
//! hangs up after its put must not lose the wake-up for its ready job.

use std::sync::Arc;

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
        Bucket, Buckets, Change, Job, NewJob, Nonce, OnConflict, Refusal, State, Topic, UnixMillis,
    },
    store::{
        Applied, Bury, Claim, Clock, Parts, Placed, PopRequest, Popped, PutOutcome, Release, Reply,
        Store, StoreError, StoreResult, StoreResults, Target, Touch, Transitioned,
    },
};

/// So many bytes of a body count as much as a job: a full batch of 1,000 has about 8 MiB.
const PART: usize = 8 << 10;

/// A pop from one bucket.
#[derive(Debug, Clone)]
pub struct PopFrom {
    pub bucket: Bucket,
    pub want: PopRequest,
}

/// The dispatcher of each transition.
pub struct Transitions {
    pub put: Dispatcher<NewJob, Reply<Placed>>,
    pub pop: Dispatcher<PopFrom, PendingDelivery>,
    pub finish: Dispatcher<Claim, Reply<Topic>>,
    pub release: Dispatcher<Release, Reply<Transitioned>>,
    pub touch: Dispatcher<Touch, Reply<UnixMillis>>,
    pub bury: Dispatcher<Bury, Reply<Transitioned>>,
    pub kick: Dispatcher<Target, Reply<Topic>>,
    pub delete: Dispatcher<Target, Reply<State>>,
    pub reschedule: Dispatcher<(Target, Change), Reply<Job>>,
}

/// What transitions do when the store has answered, one job of a bucket after another.
type After<O> = fn(&Context, Bucket, &[Reply<O>]);

impl Context {
    /// A job has moved: a consumer that waits may pop it, or the timer must know.
    fn moved(&self, bucket: Bucket, topic: &Topic, state: State, at: UnixMillis) {
        match state {
            State::Ready => self.waiters.ready(topic, bucket, 1),
            State::Delayed => self.timer.wake_by(bucket, at),
            // A dead job's time is the one that it was due at; the end of its retention is far.
            State::Reserved | State::Dead => {}
        }
    }

    /// A dispatcher: `call` makes one call to the store, `after` follows for each bucket.
    fn dispatcher<I, O, F>(
        &self,
        weight: fn(&I) -> usize,
        call: impl Fn(Arc<dyn Store>, Parts<Vec<I>>) -> F + Clone + Send + Sync + 'static,
        after: After<O>,
    ) -> Dispatcher<I, Reply<O>>
    where
        I: HasJobId + Send + 'static,
        O: Send + 'static,
        F: Future<Output = StoreResults<Vec<Reply<O>>>> + Send + 'static,
    {
        let bucket_of = |job: &I, buckets: Buckets| buckets.of(job.id());
        Dispatcher::new(&self.store, bucket_of, || {
            let (context, call) = (self.clone(), call.clone());
            let limit = self.store.batch_limit();
            Coalescer::weighing(weight, limit, &self.calls, move |jobs: Vec<I>| {
                let (context, call) = (context.clone(), call.clone());
                async move {
                    let all = context.store.buckets();
                    let (parts, order) = divide(jobs, |job| all.of(job.id()));
                    let asked: Vec<(Bucket, usize)> =
                        parts.iter().map(|(bucket, jobs)| (*bucket, jobs.len())).collect();
                    let outcomes = call(Arc::clone(&context.store), parts).await;
                    let each = asked.into_iter().zip(outcomes).map(|((bucket, count), outcome)| {
                        let replies = outcome.inspect(|replies| after(&context, bucket, replies));
                        context.of_each(replies, count)
                    });
                    order.restore(each.collect())
                }
            })
        })
    }

    /// What became of a part, for each of its jobs. One that may have been done has perhaps set
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

    /// Returns jobs that could not be delivered, for others to pop.
    pub fn unpop(&self) -> Dispatcher<Claim, Reply<Topic>> {
        let call = |store: Arc<dyn Store>, parts| async move { store.unpop(parts).await };
        self.dispatcher(
            |_| 1,
            call,
            |context, bucket, replies| {
                context.stats.count(replies.iter().flatten(), |since| since.returned += 1);
                for topic in replies.iter().flatten() {
                    context.waiters.ready(topic, bucket, 1);
                }
            },
        )
    }

    pub fn transitions(
        &self,
        returner: &Arc<Returner>,
        unanswered: &Arc<[Arc<Unanswered>]>,
    ) -> Transitions {
        Transitions {
            put: self.put(),
            pop: self.pop(returner, unanswered),
            finish: self.dispatcher(
                |_| 1,
                |store: Arc<dyn Store>, parts| async move { store.finish(parts).await },
                |context, _, replies| {
                    context.stats.count(replies.iter().flatten(), |since| since.finished += 1)
                },
            ),
            // To write a job's attempt anew takes Redis as long as to put two.
            release: self.dispatcher(
                |_| 2,
                |store: Arc<dyn Store>, parts| async move { store.release(parts).await },
                |context, bucket, replies| {
                    let released = replies.iter().flatten().map(|job| &job.topic);
                    context.stats.count(released, |since| since.released += 1);
                    context.count_dead(replies);
                    for job in replies.iter().flatten() {
                        context.moved(bucket, &job.topic, job.state, job.due_at);
                    }
                },
            ),
            touch: self.dispatcher(
                |_| 1,
                |store: Arc<dyn Store>, parts| async move { store.touch(parts).await },
                |context, bucket, replies| {
                    replies.iter().flatten().for_each(|&at| context.timer.wake_by(bucket, at));
                },
            ),
            bury: self.dispatcher(
                |_| 2,
                |store: Arc<dyn Store>, parts| async move { store.bury(parts).await },
                |context, _, replies| context.count_dead(replies),
            ),
            kick: self.dispatcher(
                |_| 1,
                |store: Arc<dyn Store>, parts| async move { store.kick(parts).await },
                |context, bucket, replies| {
                    for topic in replies.iter().flatten() {
                        context.waiters.ready(topic, bucket, 1);
                    }
                },
            ),
            delete: self.dispatcher(
                |_| 1,
                |store: Arc<dyn Store>, parts| async move { store.delete(parts).await },
                |_, _, _| {},
            ),
            reschedule: self.dispatcher(
                |(_, change)| 1 + change.body.as_ref().map_or(0, |body| body.len()) / PART,
                |store: Arc<dyn Store>, parts| async move { store.reschedule(parts).await },
                Self::rescheduled,
            ),
        }
    }

    /// Jobs of one bucket have another time, or other contents.
    fn rescheduled(&self, bucket: Bucket, replies: &[Reply<Job>]) {
        for reply in replies {
            match reply {
                Ok(job) => self.moved(bucket, &job.topic, job.state, job.due_at),
                // Its new time is not told.
                Err(Refusal::ChangedDamaged) => self.timer.doubt(),
                Err(_) => {}
            }
        }
    }

    fn count_dead(&self, replies: &[Reply<Transitioned>]) {
        let died = replies.iter().flatten().filter(|moved| moved.died);
        self.stats.count(died.map(|moved| &moved.topic), |since| since.dead += 1);
    }

    fn put(&self) -> Dispatcher<NewJob, Reply<Placed>> {
        // To replace a job takes Redis as long as to put three.
        let weight = |job: &NewJob| match job.on_conflict {
            OnConflict::Replace => 3 + job.body.len() / PART,
            OnConflict::Reject | OnConflict::Keep => 1 + job.body.len() / PART,
        };
        let bucket_of = |job: &NewJob, buckets: Buckets| buckets.of(&job.id);
        Dispatcher::new(&self.store, bucket_of, || {
            let context = self.clone();
            let limit = self.store.batch_limit();
            Coalescer::weighing(weight, limit, &self.calls, move |jobs| {
                context.clone().put_jobs(jobs)
            })
        })
    }

    async fn put_jobs(self, jobs: Vec<NewJob>) -> StoreResults<Reply<Placed>> {
        let all = self.store.buckets();
        let (parts, order) = divide(jobs, |job| all.of(&job.id));
        let topics = |jobs: &[NewJob]| jobs.iter().map(|job| job.topic.clone()).collect();
        let asked: Vec<(Bucket, Vec<Topic>)> =
            parts.iter().map(|(bucket, jobs)| (*bucket, topics(jobs))).collect();
        let outcomes = self.store.put(parts).await;
        let each = asked.into_iter().zip(outcomes).map(|((bucket, topics), outcome)| {
            let outcome = outcome.inspect(|replies| self.placed(bucket, &topics, replies));
            self.of_each(outcome, topics.len())
        });
        order.restore(each.collect())
    }

    /// Jobs of one bucket have been put.
    fn placed(&self, bucket: Bucket, topics: &[Topic], replies: &[Reply<Placed>]) {
        let placed = |(topic, reply)| match reply {
            &Ok(Placed { how: PutOutcome::Created | PutOutcome::Replaced, state, due_at }) => {
                Some((topic, state, due_at))
            }
            Ok(_) | Err(_) => None,
        };
        let placed: Vec<_> = topics.iter().zip(replies).filter_map(placed).collect();
        self.stats.count(placed.iter().map(|&(topic, ..)| topic), |since| since.put += 1);
        for same in placed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            match same[0] {
                (topic, State::Ready, _) => self.waiters.ready(topic, bucket, same.len() as u64),
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
            (*bucket, (nonce, pops.chunk_by(alike).map(together).collect()))
        });
        let parts: Parts<(Nonce, Vec<PopRequest>)> = parts.collect();
        let nonces: Vec<Nonce> = parts.iter().map(|(_, (nonce, _))| *nonce).collect();
        let outcomes = self.store.pop(parts).await;
        let each = asked.iter().zip(marks).zip(nonces).zip(outcomes).map(
            |((((bucket, pops), marks), nonce), outcome)| match outcome {
                Ok(popped) => {
                    self.popped(*bucket, pops, &marks, &popped);
                    share(pops, popped, &returner)
                }
                Err(error) => {
                    let topics = pops.iter().map(|pop| pop.want.topic.clone());
                    if error.applied() == Applied::Unknown {
                        unanswered[bucket.index()].add(nonce, topics.clone().collect());
                    }
                    // When the bucket is back, the timer looks for consumers without a mark.
                    topics.for_each(|topic| self.waiters.unmark(&topic, *bucket));
                    self.of_each(Err(error), pops.len())
                }
            },
        );
        order.restore(each.collect())
    }

    /// Jobs of one bucket have been popped.
    fn popped(&self, bucket: Bucket, pops: &[PopFrom], marks: &[u64], popped: &[Popped]) {
        let jobs = || popped.iter().flat_map(|popped| &popped.jobs);
        jobs().for_each(|job| self.timer.wake_by(bucket, job.reserved_until));
        self.stats.count(jobs().map(|job| &job.topic), |since| since.popped += 1);
        let now = Clock::Own.now().floor;
        self.lateness.count(now, jobs().map(|job| (job.due_at, job.popped_at())));
        let mut index = 0;
        for (same, popped) in pops.chunk_by(alike).zip(popped) {
            self.waiters.left(&same[0].want.topic, bucket, marks[index], popped.left);
            index += same.len();
        }
    }
}

/// Pops that are one to the store.
fn alike(a: &PopFrom, b: &PopFrom) -> bool {
    (&a.want.topic, a.want.ttr) == (&b.want.topic, b.want.ttr)
}

fn together(same: &[PopFrom]) -> PopRequest {
    let counts = same.iter().map(|pop| pop.want.count);
    PopRequest { count: counts.fold(0, u16::saturating_add), ..same[0].want.clone() }
}

/// Gives each pop its part of what they got together.
fn share(
    pops: &[PopFrom],
    popped: Vec<Popped>,
    returner: &Arc<Returner>,
) -> StoreResults<PendingDelivery> {
    let mut all = Vec::with_capacity(pops.len());
    for (same, popped) in pops.chunk_by(alike).zip(popped) {
        let mut jobs = popped.jobs.into_iter();
        for pop in same {
            let own = jobs.by_ref().take(pop.want.count.into()).collect();
            all.push(Ok(PendingDelivery::new(own, Arc::clone(returner))));
        }
    }
    all
}
