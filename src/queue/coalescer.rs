//! What arrives while a call is under way goes into the next call, together.
//!
//! One coalescer per bucket and transition. The first to come starts a task that calls until
//! nobody waits any more; so at most one call is under way, batches grow with the load by
//! themselves, and a caller that goes away takes nothing with it: its part is done all the same.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::store::{MAX_BATCH, Outcome, StoreError};

/// Makes one call for a batch; answers in the batch's order.
type Call<I, O> = Box<dyn Fn(Vec<I>) -> BoxFuture<'static, Outcome<Vec<O>>> + Send + Sync>;

pub(super) struct Coalescer<I, O> {
    inner: Arc<Inner<I, O>>,
}

struct Inner<I, O> {
    call: Call<I, O>,
    /// How many jobs one of `I` may concern.
    weight: fn(&I) -> usize,
    /// Where calls run, so that whoever ends the queue can wait for them.
    calls: TaskTracker,
    state: Mutex<State<I, O>>,
}

struct State<I, O> {
    waiting: VecDeque<Group<I, O>>,
    /// A task is calling, and will look here again.
    busy: bool,
}

/// What one caller brought.
struct Group<I, O> {
    jobs: Vec<I>,
    reply: oneshot::Sender<Outcome<Vec<O>>>,
}

impl<I, O> Clone for Coalescer<I, O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<I: Send + 'static, O: Send + 'static> Coalescer<I, O> {
    pub(super) fn new<F>(
        calls: &TaskTracker,
        call: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Outcome<Vec<O>>> + Send + 'static,
    {
        Self::weighing(|_| 1, calls, call)
    }

    /// For calls that may concern several jobs each: `weight` tells how many.
    pub(super) fn weighing<F>(
        weight: fn(&I) -> usize,
        calls: &TaskTracker,
        call: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Outcome<Vec<O>>> + Send + 'static,
    {
        let call: Call<I, O> = Box::new(move |jobs| call(jobs).boxed());
        let state = Mutex::new(State { waiting: VecDeque::new(), busy: false });
        Self { inner: Arc::new(Inner { call, weight, calls: calls.clone(), state }) }
    }

    /// Has `jobs` (at most [`MAX_BATCH`]) done in one call, perhaps with others.
    pub(super) async fn submit(&self, jobs: Vec<I>) -> Outcome<Vec<O>> {
        let (reply, replied) = oneshot::channel();
        let start = {
            let mut state = self.inner.lock();
            state.waiting.push_back(Group { jobs, reply });
            !std::mem::replace(&mut state.busy, true)
        };
        if start {
            self.inner.calls.spawn(Arc::clone(&self.inner).run());
        }
        replied.await.unwrap_or_else(|_| Err(StoreError::unknown("the call was abandoned")))
    }
}

impl<I: Send + 'static, O: Send + 'static> Inner<I, O> {
    async fn run(self: Arc<Self>) {
        while let Some((jobs, groups)) = self.next_batch() {
            let called = AssertUnwindSafe((self.call)(jobs)).catch_unwind().await;
            let outcome = called.unwrap_or_else(|_| Err(StoreError::unknown("a call panicked")));
            // A receiver that is gone: nobody needs the answer.
            match outcome {
                Ok(replies) => {
                    let mut replies = replies.into_iter();
                    for (count, reply) in groups {
                        let _ = reply.send(Ok(replies.by_ref().take(count).collect()));
                    }
                }
                Err(error) => {
                    for (_, reply) in groups {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Whole groups up to the size of a batch; none ends the task.
    #[expect(clippy::type_complexity, reason = "the two halves of a batch, used once")]
    fn next_batch(&self) -> Option<(Vec<I>, Vec<(usize, oneshot::Sender<Outcome<Vec<O>>>)>)> {
        let mut state = self.lock();
        let mut jobs = Vec::new();
        let mut groups = Vec::new();
        let mut weight = 0;
        while let Some(group) = state.waiting.front() {
            weight += group.jobs.iter().map(self.weight).sum::<usize>();
            if !groups.is_empty() && weight > MAX_BATCH {
                break;
            }
            let group = state.waiting.pop_front()?;
            groups.push((group.jobs.len(), group.reply));
            jobs.extend(group.jobs);
        }
        state.busy = !groups.is_empty();
        state.busy.then_some((jobs, groups))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<I, O>> {
        self.state.lock().expect("nobody panics while holding this lock")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Answers each number with its double and the size of its batch, once the gate lets it.
    fn doubling(gate: &Arc<tokio::sync::Semaphore>) -> Coalescer<u32, (u32, usize)> {
        let gate = Arc::clone(gate);
        Coalescer::new(&TaskTracker::new(), move |jobs: Vec<u32>| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.expect("an open gate").forget();
                match jobs.contains(&0) {
                    true => Err(StoreError::away("zero")),
                    false => Ok(jobs.iter().map(|n| (n * 2, jobs.len())).collect()),
                }
            }
        })
    }

    async fn waiting(coalescer: &Coalescer<u32, (u32, usize)>, groups: usize) {
        while coalescer.inner.lock().waiting.len() < groups {
            tokio::task::yield_now().await;
        }
    }

    async fn under_way(coalescer: &Coalescer<u32, (u32, usize)>) {
        loop {
            let (busy, idle) = {
                let state = coalescer.inner.lock();
                (state.busy, state.waiting.is_empty())
            };
            if busy && idle {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_arrives_during_a_call_goes_into_the_next_together() {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let coalescer = doubling(&gate);
        let submit = |jobs: Vec<u32>| {
            let coalescer = coalescer.clone();
            tokio::spawn(async move { coalescer.submit(jobs).await })
        };
        let first = submit(vec![1]);
        under_way(&coalescer).await;
        let second = submit(vec![2, 3]);
        let gone = submit(vec![4]);
        waiting(&coalescer, 2).await;
        gone.abort();
        gate.add_permits(2);
        assert_eq!(first.await.expect("joined").expect("replied"), [(2, 1)]);
        assert_eq!(second.await.expect("joined").expect("replied"), [(4, 3), (6, 3)]);
    }

    #[tokio::test]
    async fn an_error_reaches_the_whole_batch_and_the_next_call_goes_well() {
        let gate = Arc::new(tokio::sync::Semaphore::new(9));
        let coalescer = doubling(&gate);
        coalescer.submit(vec![1, 0]).await.expect_err("zero fails");
        assert_eq!(coalescer.submit(vec![5]).await.expect("replied"), [(10, 1)]);
    }

    #[tokio::test]
    async fn a_panic_in_a_call_does_not_block_those_after_it() {
        let coalescer = Coalescer::new(&TaskTracker::new(), |jobs: Vec<u32>| async move {
            assert!(!jobs.contains(&0), "a call that panics");
            Ok(jobs)
        });
        coalescer.submit(vec![0]).await.expect_err("it panicked");
        let next = tokio::time::timeout(Duration::from_secs(5), coalescer.submit(vec![1])).await;
        assert_eq!(next.expect("in time").expect("replied"), [1]);
    }
}
