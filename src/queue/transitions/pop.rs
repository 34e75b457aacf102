//! The dispatcher of pops, which merges equal pops into one request to the store.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    job::{Bucket, Nonce},
    queue::{
        batching::{
            coalescer::Coalescer,
            dispatcher::{Dispatcher, divide},
        },
        context::Context,
        delivery::{
            pending_delivery::{PendingDelivery, Returner},
            unanswered::Unanswered,
        },
    },
    store::{Applied, Clock, Parts, PopRequest, Popped, StoreResults},
};

#[derive(Debug, Clone)]
pub struct PopFrom {
    pub bucket: Bucket,
    pub want: PopRequest,
}

impl Context {
    pub(super) fn pop(
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
            self.waiters.note_left(topic, bucket, marks[index], (popped.left, last));
            if popped.dead > 0 {
                self.stats.count([topic], |since| since.dead += popped.dead);
            }
            for (target, jobs) in &popped.moved {
                self.waiters.ready(target, bucket, *jobs);
                self.stats.count([topic], |since| since.moved += jobs.count);
            }
            index += same.len();
        }
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
        let has_ended_jobs = popped.has_ended_jobs();
        let mut jobs = popped.jobs.into_iter();
        for pop in same {
            let own = jobs.by_ref().take(pop.want.count.into()).collect();
            let mut delivery = PendingDelivery::new(own, Arc::clone(returner), began);
            delivery.has_ended_jobs = has_ended_jobs;
            all.push(Ok(delivery));
        }
    }
    all
}
