//! What arrives while a call is under way goes into the next call, together.
//!
//! One coalescer per server of the store and transition. The first caller starts a task that makes
//! calls until no caller waits any more; so batches grow with the load by themselves, and a caller
//! that goes away takes nothing with it: its part is done all the same. One call is under way, and
//! where enough jobs have gathered a second one, so that the store need not wait between two calls.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures::{
    FutureExt,
    future::{BoxFuture, join, join_all},
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::{
    store::{MAX_BATCH, StoreError, StoreResults},
    traces,
};

/// With so many jobs waiting, a second call is worth its own cost.
const WORTH_A_CALL: usize = 16;
/// Calls under way: one that is being done, and one that is next.
const UNDER_WAY: usize = 2;
/// Most calls under way: while the store does one, others are written and their answers read. More than
/// [`UNDER_WAY`] are worth it only when they are full.
const MOST: usize = 4;

/// Makes one call for a batch; answers what became of each job, in the batch's order.
type Call<I, O> = Box<dyn Fn(Vec<I>) -> BoxFuture<'static, StoreResults<O>> + Send + Sync>;

/// Gathers what concurrent callers submit into calls.
pub struct Coalescer<I, O> {
    inner: Arc<Inner<I, O>>,
}

struct Inner<I, O> {
    call: Call<I, O>,
    /// How many jobs one of `I` may concern.
    weight: fn(&I) -> usize,
    /// Most of that in one call.
    limit: usize,
    /// Where calls run, so that closing the queue can wait for them.
    calls: TaskTracker,
    state: Mutex<State<I, O>>,
}

struct State<I, O> {
    waiting: VecDeque<Group<I, O>>,
    /// Jobs in all of `waiting`.
    jobs: usize,
    /// Tasks that are calling; each will look here again.
    calling: usize,
}

impl<I, O> State<I, O> {
    /// Whether a call should be made now, besides those under way, if a full one has `limit` jobs.
    fn wants_call(&self, limit: usize) -> bool {
        match self.calling {
            0 => !self.waiting.is_empty(),
            MOST.. => false,
            UNDER_WAY.. => self.jobs >= limit,
            _ => self.jobs >= WORTH_A_CALL,
        }
    }
}

/// What one caller brought.
struct Group<I, O> {
    jobs: Vec<I>,
    reply: oneshot::Sender<StoreResults<O>>,
    span: Span,
}

/// What goes in one call: the jobs of all groups, and for each group how many are its own.
struct Batch<I, O> {
    jobs: Vec<I>,
    groups: Groups<O>,
    span: Span,
}

type Groups<O> = Vec<(usize, oneshot::Sender<StoreResults<O>>)>;

impl<I, O> Clone for Coalescer<I, O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<I: Send + 'static, O: Send + 'static> Coalescer<I, O> {
    /// Calls are spawned on `calls`.
    pub fn new<F>(calls: &TaskTracker, call: impl Fn(Vec<I>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StoreResults<O>> + Send + 'static,
    {
        Self::weighing(|_| 1, MAX_BATCH, calls, call)
    }

    /// For calls of at most `limit` jobs, where one of `I` counts as many as `weight` tells.
    pub fn weighing<F>(
        weight: fn(&I) -> usize,
        limit: usize,
        calls: &TaskTracker,
        call: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = StoreResults<O>> + Send + 'static,
    {
        let call: Call<I, O> = Box::new(move |jobs| call(jobs).boxed());
        let state = Mutex::new(State { waiting: VecDeque::new(), jobs: 0, calling: 0 });
        Self { inner: Arc::new(Inner { call, weight, limit, calls: calls.clone(), state }) }
    }

    /// Has `jobs` done, perhaps with those of others, in as few calls as the limit allows. Answers
    /// what became of each, in their order.
    pub async fn submit(&self, mut jobs: Vec<I>) -> StoreResults<O> {
        if jobs.len() == 1 {
            return self.submit_one(jobs).await;
        }
        let parts = self.parts(&jobs);
        if parts.len() == 1 {
            return self.submit_one(jobs).await;
        }
        let calls = parts.into_iter().map(|count| {
            let rest = jobs.split_off(count);
            self.submit_one(std::mem::replace(&mut jobs, rest))
        });
        join_all(calls.collect::<Vec<_>>()).await.into_iter().flatten().collect()
    }

    /// How many jobs go in each call.
    fn parts(&self, jobs: &[I]) -> Vec<usize> {
        let (mut parts, mut weight) = (vec![0], 0);
        for job in jobs {
            let more = (self.inner.weight)(job);
            if weight > 0 && weight + more > self.inner.limit {
                parts.push(0);
                weight = 0;
            }
            weight += more;
            *parts.last_mut().expect("it began with one") += 1;
        }
        parts
    }

    /// No more jobs than the limit: they are not divided.
    fn submit_one(&self, jobs: Vec<I>) -> impl Future<Output = StoreResults<O>> + use<I, O> {
        let (reply, replied) = oneshot::channel();
        let (count, span) = (jobs.len(), traces::current());
        let start = {
            let mut state = self.inner.lock();
            state.jobs += count;
            state.waiting.push_back(Group { jobs, reply, span });
            let start = state.wants_call(self.inner.limit);
            state.calling += usize::from(start);
            start
        };
        if start {
            self.inner.calls.spawn(Arc::clone(&self.inner).run());
        }
        async move {
            let abandoned =
                |_| (0..count).map(|_| Err(StoreError::unknown("the call was abandoned")));
            replied.await.unwrap_or_else(|error| abandoned(error).collect())
        }
    }
}

impl<I: Send + 'static, O: Send + 'static> Inner<I, O> {
    async fn run(self: Arc<Self>) {
        let mut answered = None;
        while let Some(Batch { jobs, groups, span }) = self.next_batch() {
            let count = jobs.len();
            let call = AssertUnwindSafe((self.call)(jobs)).catch_unwind().instrument(span);
            // The next call is on its way before the answers of the last one are given out.
            let (called, ()) = join(call, async { deliver(answered.take()) }).await;
            let panicked = || (0..count).map(|_| Err(StoreError::unknown("a call panicked")));
            let outcome = called.unwrap_or_else(|_| panicked().collect());
            answered = Some((outcome, groups));
        }
        deliver(answered);
    }

    /// Whole groups up to the size of a batch; none ends the task.
    fn next_batch(&self) -> Option<Batch<I, O>> {
        let mut state = self.lock();
        state.calling -= 1;
        if !state.wants_call(self.limit) {
            return None;
        }
        state.calling += 1;
        let mut jobs = Vec::new();
        let (mut groups, mut spans) = (Vec::new(), Vec::new());
        let mut weight = 0;
        while let Some(group) = state.waiting.front() {
            weight += group.jobs.iter().map(self.weight).sum::<usize>();
            if !groups.is_empty() && weight > self.limit {
                break;
            }
            let group = state.waiting.pop_front()?;
            groups.push((group.jobs.len(), group.reply));
            jobs.extend(group.jobs);
            spans.extend(Some(group.span).filter(|span| !span.is_disabled()));
        }
        state.jobs -= jobs.len();
        let span = traces::batch(jobs.len(), spans.into_iter());
        Some(Batch { jobs, groups, span })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<I, O>> {
        self.state.lock().expect("no thread panics while holding this lock")
    }
}

/// Gives a call's answers to the callers. If a receiver is gone, its answer is not needed.
fn deliver<O>(answered: Option<(StoreResults<O>, Groups<O>)>) {
    let Some((outcomes, groups)) = answered else { return };
    let missing = || Err(StoreError::unreadable("fewer replies than jobs"));
    let mut outcomes = outcomes.into_iter();
    for (count, reply) in groups {
        let _ = reply.send((0..count).map(|_| outcomes.next().unwrap_or_else(missing)).collect());
    }
}

#[cfg(test)]
mod tests;
