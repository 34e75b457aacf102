//! Everything that goes to one bucket: a coalescer for each transition, and what a transition
//! means to those who wait.
//!
//! Hints are given here, in the call itself and not by whoever asked for it: a client that hangs
//! up after its put must not take the news of a ready job with it.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    coalescer::Coalescer, handed::Handed, handed::WayBack, stats::Stats, timer::Bell,
    unanswered::Unanswered, waiters::Waiters,
};
use crate::{
    job::{Bucket, Change, Job, JobId, NewJob, Nonce, State, Topic, UnixMillis},
    store::{Applied, Bury, Held, How, Moved, Outcome, Placed, Release, Reply, Store, Touch, Want},
};

/// So many bytes of a body count as much as a job: a full batch of 1,000 has about 8 MiB.
const PART: usize = 8 << 10;

pub(super) struct Lane {
    pub(super) put: Coalescer<NewJob, Reply<Placed>>,
    pub(super) pop: Coalescer<Want, (Handed, u64)>,
    pub(super) unanswered: Arc<Unanswered>,
    pub(super) finish: Coalescer<Held, Reply<Topic>>,
    pub(super) release: Coalescer<Release, Reply<Moved>>,
    pub(super) touch: Coalescer<Touch, Reply<UnixMillis>>,
    pub(super) bury: Coalescer<Bury, Reply<Moved>>,
    pub(super) kick: Coalescer<JobId, Reply<Topic>>,
    pub(super) delete: Coalescer<JobId, Reply<State>>,
    pub(super) reschedule: Coalescer<(JobId, Change), Reply<Job>>,
}

/// One bucket, and whom its news concern.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) bucket: Bucket,
    pub(super) store: Arc<dyn Store>,
    pub(super) bell: Arc<Bell>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) calls: TaskTracker,
    pub(super) stats: Arc<Stats>,
}

impl Scene {
    pub(super) fn ready(&self, topic: &Topic, count: u64) {
        self.waiters.ready(topic, self.bucket, count);
    }

    /// A job has moved: whoever waits for it may pop it, or the timer must know.
    fn moved(&self, topic: &Topic, state: State, at: UnixMillis) {
        match state {
            State::Ready => self.ready(topic, 1),
            State::Delayed => self.bell.ring(at),
            // A dead job's time is the one that it was due at; the end of its retention is far.
            State::Reserved | State::Dead => {}
        }
    }

    /// A coalescer for jobs of type `I`: `call` makes one call to the store.
    fn coalescer<I, O, F>(
        &self,
        call: impl Fn(Self, Vec<I>) -> F + Send + Sync + 'static,
    ) -> Coalescer<I, O>
    where
        I: Send + 'static,
        O: Send + 'static,
        F: Future<Output = Outcome<Vec<O>>> + Send + 'static,
    {
        let scene = self.clone();
        let limit = self.store.batch_limit();
        Coalescer::weighing(|_| 1, limit, &self.calls, move |jobs| call(scene.clone(), jobs))
    }

    /// Returns what could not be handed over, for others to pop.
    pub(super) fn give_back(&self) -> Coalescer<Held, Reply<Topic>> {
        self.coalescer(|scene: Self, jobs| async move {
            let replies = scene.store.give_back(scene.bucket, jobs).await?;
            scene.stats.count(replies.iter().flatten(), |since| {
                since.popped = since.popped.saturating_sub(1)
            });
            for topic in replies.iter().flatten() {
                scene.ready(topic, 1);
            }
            Ok(replies)
        })
    }

    pub(super) fn lane(&self, way_back: &Arc<WayBack>) -> Lane {
        let way_back = Arc::clone(way_back);
        let unanswered = Arc::new(Unanswered::new(self.clone(), way_back.stop.clone()));
        let limit = self.store.batch_limit();
        Lane {
            unanswered: Arc::clone(&unanswered),
            put: {
                let scene = self.clone();
                let weight = |job: &NewJob| 1 + job.body.len() / PART;
                Coalescer::weighing(weight, limit, &self.calls, move |jobs| scene.clone().put(jobs))
            },
            pop: {
                let scene = self.clone();
                let weight = |want: &Want| usize::from(want.count);
                Coalescer::weighing(weight, limit, &self.calls, move |wants| {
                    scene.clone().pop(wants, Arc::clone(&way_back), Arc::clone(&unanswered))
                })
            },
            finish: self.coalescer(|scene: Self, jobs| async move {
                let replies = scene.store.finish(scene.bucket, jobs).await?;
                scene.stats.count(replies.iter().flatten(), |since| since.finished += 1);
                Ok(replies)
            }),
            release: self.coalescer(|scene: Self, jobs| async move {
                let replies = scene.store.release(scene.bucket, jobs).await?;
                scene.count_dead(&replies);
                for moved in replies.iter().flatten() {
                    scene.moved(&moved.topic, moved.state, moved.due_at);
                }
                Ok(replies)
            }),
            touch: self.coalescer(|scene: Self, jobs| async move {
                let replies = scene.store.touch(scene.bucket, jobs).await?;
                replies.iter().flatten().for_each(|&until| scene.bell.ring(until));
                Ok(replies)
            }),
            bury: self.coalescer(|scene: Self, jobs| async move {
                let replies = scene.store.bury(scene.bucket, jobs).await?;
                scene.count_dead(&replies);
                Ok(replies)
            }),
            kick: self.coalescer(|scene: Self, jobs| async move {
                let replies = scene.store.kick(scene.bucket, jobs).await?;
                for topic in replies.iter().flatten() {
                    scene.ready(topic, 1);
                }
                Ok(replies)
            }),
            delete: self.coalescer(|scene: Self, jobs| async move {
                scene.store.delete(scene.bucket, jobs).await
            }),
            reschedule: {
                let scene = self.clone();
                let weight = |(_, change): &(JobId, Change)| {
                    1 + change.body.as_ref().map_or(0, |body| body.len()) / PART
                };
                Coalescer::weighing(weight, limit, &self.calls, move |jobs| {
                    scene.clone().reschedule(jobs)
                })
            },
        }
    }

    async fn reschedule(self, jobs: Vec<(JobId, Change)>) -> Outcome<Vec<Reply<Job>>> {
        let replies = self.store.reschedule(self.bucket, jobs).await?;
        for job in replies.iter().flatten() {
            self.moved(&job.topic, job.state, job.due_at);
        }
        Ok(replies)
    }

    fn count_dead(&self, replies: &[Reply<Moved>]) {
        let died = replies.iter().flatten().filter(|moved| moved.died);
        self.stats.count(died.map(|moved| &moved.topic), |since| since.dead += 1);
    }

    async fn put(self, jobs: Vec<NewJob>) -> Outcome<Vec<Reply<Placed>>> {
        let topics: Vec<Topic> = jobs.iter().map(|job| job.topic.clone()).collect();
        let replies = self.store.put(self.bucket, jobs).await?;
        let placed = |(topic, reply)| match reply {
            &Ok(Placed { how: How::Created | How::Replaced, state, due_at }) => {
                Some((topic, state, due_at))
            }
            Ok(_) | Err(_) => None,
        };
        let placed: Vec<_> = topics.iter().zip(&replies).filter_map(placed).collect();
        self.stats.count(placed.iter().map(|&(topic, ..)| topic), |since| since.put += 1);
        for same in placed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            match same[0] {
                (topic, State::Ready, _) => self.ready(topic, same.len() as u64),
                _ => same.iter().for_each(|&(.., at)| self.bell.ring(at)),
            }
        }
        Ok(replies)
    }

    /// Wants that are alike are one want to the store.
    async fn pop(
        self,
        wants: Vec<Want>,
        way_back: Arc<WayBack>,
        unanswered: Arc<Unanswered>,
    ) -> Outcome<Vec<(Handed, u64)>> {
        let nonce = Nonce::new(rand::random());
        let alike = |a: &Want, b: &Want| (&a.topic, a.ttr) == (&b.topic, b.ttr);
        let together = wants.chunk_by(alike).map(|same| Want {
            count: same.iter().map(|want| want.count).fold(0, u16::saturating_add),
            ..same[0].clone()
        });
        let popped = self.store.pop(self.bucket, nonce, together.collect()).await;
        if popped.as_ref().is_err_and(|error| error.applied() == Applied::Unknown) {
            unanswered.add(nonce, wants.iter().map(|want| want.topic.clone()).collect());
        }
        let popped = popped?;
        let deadlines = popped.iter().flat_map(|p| &p.jobs).map(|job| job.reserved_until);
        deadlines.for_each(|at| self.bell.ring(at));
        let topics = popped.iter().flat_map(|p| &p.jobs).map(|job| &job.topic);
        self.stats.count(topics, |since| since.popped += 1);

        let mut all = Vec::with_capacity(wants.len());
        for (same, popped) in wants.chunk_by(alike).zip(popped) {
            let mut jobs = popped.jobs.into_iter();
            for want in same {
                let own = jobs.by_ref().take(want.count.into()).collect();
                all.push((Handed::new(own, Arc::clone(&way_back)), popped.left));
            }
        }
        Ok(all)
    }
}
