//! What arrives while a call is under way goes into the next call, together.
//!
//! One coalescer per bucket and transition. The first to come starts a task that calls until
//! nobody waits any more; so batches grow with the load by themselves, and a caller that goes away
//! takes nothing with it: its part is done all the same. One call is under way, and where enough
//! have gathered a second one, so that the store need not wait between two calls.

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

use crate::store::{MAX_BATCH, Outcome, StoreError};

/// With so many jobs waiting, a second call is worth its own cost.
const WORTH_A_CALL: usize = 8;
/// Most calls under way: one that is being done, and one that is next.
const UNDER_WAY: usize = 2;

/// Makes one call for a batch; answers in the batch's order.
type Call<I, O> = Box<dyn Fn(Vec<I>) -> BoxFuture<'static, Outcome<Vec<O>>> + Send + Sync>;

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
    /// Where calls run, so that whoever ends the queue can wait for them.
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
    /// Whether a call should be made now, besides those under way.
    fn wants_call(&self) -> bool {
        match self.calling {
            0 => !self.waiting.is_empty(),
            UNDER_WAY.. => false,
            _ => self.jobs >= WORTH_A_CALL,
        }
    }
}

/// What one caller brought.
struct Group<I, O> {
    jobs: Vec<I>,
    reply: oneshot::Sender<Outcome<Vec<O>>>,
}

/// What goes in one call: the jobs of all groups, and for each group how many are its own.
struct Batch<I, O> {
    jobs: Vec<I>,
    groups: Groups<O>,
}

type Groups<O> = Vec<(usize, oneshot::Sender<Outcome<Vec<O>>>)>;

impl<I, O> Clone for Coalescer<I, O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<I: Send + 'static, O: Send + 'static> Coalescer<I, O> {
    /// Calls are spawned on `calls`.
    pub fn new<F>(calls: &TaskTracker, call: impl Fn(Vec<I>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Outcome<Vec<O>>> + Send + 'static,
    {
        Self::weighing(|_| 1, MAX_BATCH, calls, call)
    }

    /// For calls of at most `limit` jobs, where one of `I` counts as many as `weight` tells.
    pub(super) fn weighing<F>(
        weight: fn(&I) -> usize,
        limit: usize,
        calls: &TaskTracker,
        call: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Outcome<Vec<O>>> + Send + 'static,
    {
        let call: Call<I, O> = Box::new(move |jobs| call(jobs).boxed());
        let state = Mutex::new(State { waiting: VecDeque::new(), jobs: 0, calling: 0 });
        Self { inner: Arc::new(Inner { call, weight, limit, calls: calls.clone(), state }) }
    }

    /// Has `jobs` done in as many calls as the limit makes of them; answers each by its own call.
    pub(super) async fn submit_parts(&self, jobs: Vec<I>) -> Vec<Outcome<O>> {
        let (mut parts, mut part, mut weight) = (Vec::new(), Vec::new(), 0);
        for job in jobs {
            let more = (self.inner.weight)(&job);
            if !part.is_empty() && weight + more > self.inner.limit {
                parts.push(std::mem::take(&mut part));
                weight = 0;
            }
            part.push(job);
            weight += more;
        }
        parts.extend((!part.is_empty()).then_some(part));
        let calls = parts.into_iter().map(async |part| {
            let count = part.len();
            match self.submit(part).await {
                Ok(replies) => replies.into_iter().map(Ok).collect(),
                Err(error) => (0..count).map(|_| Err(error.clone())).collect::<Vec<_>>(),
            }
        });
        join_all(calls).await.into_iter().flatten().collect()
    }

    /// Has `jobs` (no more than the limit) done in one call, perhaps with others.
    ///
    /// # Errors
    /// The call's.
    pub async fn submit(&self, jobs: Vec<I>) -> Outcome<Vec<O>> {
        let (reply, replied) = oneshot::channel();
        let start = {
            let mut state = self.inner.lock();
            state.jobs += jobs.len();
            state.waiting.push_back(Group { jobs, reply });
            let start = state.wants_call();
            state.calling += usize::from(start);
            start
        };
        if start {
            self.inner.calls.spawn(Arc::clone(&self.inner).run());
        }
        replied.await.unwrap_or_else(|_| Err(StoreError::unknown("the call was abandoned")))
    }
}

impl<I: Send + 'static, O: Send + 'static> Inner<I, O> {
    async fn run(self: Arc<Self>) {
        let mut answered = None;
        while let Some(Batch { jobs, groups }) = self.next_batch() {
            let call = AssertUnwindSafe((self.call)(jobs)).catch_unwind();
            // The next call is on its way before the answers of the last one are given out.
            let (called, ()) = join(call, async { deliver(answered.take()) }).await;
            let outcome = called.unwrap_or_else(|_| Err(StoreError::unknown("a call panicked")));
            answered = Some((outcome, groups));
        }
        deliver(answered);
    }

    /// Whole groups up to the size of a batch; none ends the task.
    fn next_batch(&self) -> Option<Batch<I, O>> {
        let mut state = self.lock();
        state.calling -= 1;
        if !state.wants_call() {
            return None;
        }
        state.calling += 1;
        let mut jobs = Vec::new();
        let mut groups = Vec::new();
        let mut weight = 0;
        while let Some(group) = state.waiting.front() {
            weight += group.jobs.iter().map(self.weight).sum::<usize>();
            if !groups.is_empty() && weight > self.limit {
                break;
            }
            let group = state.waiting.pop_front()?;
            groups.push((group.jobs.len(), group.reply));
            jobs.extend(group.jobs);
        }
        state.jobs -= jobs.len();
        Some(Batch { jobs, groups })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<I, O>> {
        self.state.lock().expect("nobody panics while holding this lock")
    }
}

/// Gives a call's answers to those who wait. A receiver that is gone: nobody needs the answer.
fn deliver<O>(answered: Option<(Outcome<Vec<O>>, Groups<O>)>) {
    match answered {
        None => {}
        Some((Ok(replies), groups)) => {
            let mut replies = replies.into_iter();
            for (count, reply) in groups {
                let _ = reply.send(Ok(replies.by_ref().take(count).collect()));
            }
        }
        Some((Err(error), groups)) => {
            for (_, reply) in groups {
                let _ = reply.send(Err(error.clone()));
            }
        }
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
                (state.calling > 0, state.waiting.is_empty())
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

    /// What many callers get whose groups gather while calls are held.
    async fn gathered(
        coalescer: &Coalescer<u32, (u32, usize)>,
        gate: &tokio::sync::Semaphore,
        groups: &[Vec<u32>],
    ) -> Vec<usize> {
        // Both calls that may be under way at once.
        let mut held = Vec::new();
        for _ in 0..UNDER_WAY {
            let coalescer = coalescer.clone();
            held.push(tokio::spawn(async move { coalescer.submit(vec![1; WORTH_A_CALL]).await }));
            tokio::task::yield_now().await;
        }
        while coalescer.inner.lock().calling < UNDER_WAY {
            tokio::task::yield_now().await;
        }
        under_way(coalescer).await;
        let submits = groups.iter().map(|jobs| {
            let (coalescer, jobs) = (coalescer.clone(), jobs.clone());
            tokio::spawn(async move { coalescer.submit(jobs).await })
        });
        let submits: Vec<_> = submits.collect();
        waiting(coalescer, groups.len()).await;
        gate.add_permits(UNDER_WAY + groups.len());
        let mut sizes = Vec::new();
        for submit in submits {
            let replies = submit.await.expect("joined").expect("replied");
            sizes.push(replies[0].1);
        }
        sizes
    }

    #[tokio::test]
    async fn no_call_gets_more_than_a_batch_and_no_group_is_torn() {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let coalescer = doubling(&gate);
        let sizes = gathered(&coalescer, &gate, &vec![vec![2; 300]; 10]).await;
        // Three groups of 300 each, and what is left.
        assert_eq!(sizes, [900, 900, 900, 900, 900, 900, 900, 900, 900, 300]);
    }

    #[tokio::test]
    async fn what_weighs_more_goes_in_smaller_batches_and_what_is_too_heavy_goes_alone() {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let weight = |n: &u32| usize::try_from(*n).expect("a small number");
        let coalescer =
            Coalescer { inner: Arc::new(Inner { weight, ..unshared(doubling(&gate)) }) };
        let groups = [vec![400], vec![300, 300], vec![1], vec![2_000], vec![999], vec![1]];
        let sizes = gathered(&coalescer, &gate, &groups).await;
        assert_eq!(sizes, [3, 3, 1, 1, 2, 2]);
    }

    fn unshared(coalescer: Coalescer<u32, (u32, usize)>) -> Inner<u32, (u32, usize)> {
        Arc::into_inner(coalescer.inner).expect("no other has it")
    }

    #[tokio::test]
    async fn a_large_group_goes_in_calls_of_the_limit_and_each_job_has_the_outcome_of_its_own() {
        let call = |jobs: Vec<u32>| async move {
            match jobs.contains(&4) {
                true => Err(StoreError::away("four")),
                false => Ok(jobs.iter().map(|n| (n * 2, jobs.len())).collect()),
            }
        };
        let coalescer = Coalescer::weighing(|_| 1, 2, &TaskTracker::new(), call);
        let outcomes = coalescer.submit_parts(vec![1, 2, 3, 4, 5]).await;
        let replies: Vec<Option<(u32, usize)>> = outcomes.into_iter().map(Result::ok).collect();
        assert_eq!(replies, [Some((2, 2)), Some((4, 2)), None, None, Some((10, 1))]);
        assert!(coalescer.submit_parts(Vec::new()).await.is_empty());
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
