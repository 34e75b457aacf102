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

use crate::store::{MAX_BATCH, StoreError, StoreResults};

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
}

/// What goes in one call: the jobs of all groups, and for each group how many are its own.
struct Batch<I, O> {
    jobs: Vec<I>,
    groups: Groups<O>,
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
        let count = jobs.len();
        let start = {
            let mut state = self.inner.lock();
            state.jobs += count;
            state.waiting.push_back(Group { jobs, reply });
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
        while let Some(Batch { jobs, groups }) = self.next_batch() {
            let count = jobs.len();
            let call = AssertUnwindSafe((self.call)(jobs)).catch_unwind();
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
                let answer = |n: &u32| match jobs.contains(&0) {
                    true => Err(StoreError::away("zero")),
                    false => Ok((n * 2, jobs.len())),
                };
                jobs.iter().map(answer).collect()
            }
        })
    }

    fn replies<O>(outcomes: StoreResults<O>) -> Vec<O> {
        outcomes.into_iter().map(|outcome| outcome.expect("replied")).collect()
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
        assert_eq!(replies(first.await.expect("joined")), [(2, 1)]);
        assert_eq!(replies(second.await.expect("joined")), [(4, 3), (6, 3)]);
    }

    /// What many callers get whose groups gather while calls are held.
    async fn gathered(
        coalescer: &Coalescer<u32, (u32, usize)>,
        gate: &tokio::sync::Semaphore,
        groups: &[Vec<u32>],
    ) -> Vec<usize> {
        // All calls that may be under way at once.
        let mut held = Vec::new();
        for _ in 0..MOST {
            let coalescer = coalescer.clone();
            held.push(tokio::spawn(async move { coalescer.submit(vec![1; MAX_BATCH]).await }));
            tokio::task::yield_now().await;
        }
        while coalescer.inner.lock().calling < MOST {
            tokio::task::yield_now().await;
        }
        under_way(coalescer).await;
        let submits = groups.iter().map(|jobs| {
            let (coalescer, jobs) = (coalescer.clone(), jobs.clone());
            tokio::spawn(async move { coalescer.submit(jobs).await })
        });
        let submits: Vec<_> = submits.collect();
        waiting(coalescer, groups.len()).await;
        gate.add_permits(MOST + groups.len());
        let mut sizes = Vec::new();
        for submit in submits {
            sizes.push(replies(submit.await.expect("joined"))[0].1);
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
            let answer = |n: &u32| match jobs.contains(&4) {
                true => Err(StoreError::away("four")),
                false => Ok((n * 2, jobs.len())),
            };
            jobs.iter().map(answer).collect()
        };
        let coalescer = Coalescer::weighing(|_| 1, 2, &TaskTracker::new(), call);
        let outcomes = coalescer.submit(vec![1, 2, 3, 4, 5]).await;
        let replies: Vec<Option<(u32, usize)>> = outcomes.into_iter().map(Result::ok).collect();
        assert_eq!(replies, [Some((2, 2)), Some((4, 2)), None, None, Some((10, 1))]);
        assert!(coalescer.submit(Vec::new()).await.is_empty());
    }

    #[tokio::test]
    async fn an_error_reaches_the_whole_batch_and_the_next_call_goes_well() {
        let gate = Arc::new(tokio::sync::Semaphore::new(9));
        let coalescer = doubling(&gate);
        let failed = coalescer.submit(vec![1, 0]).await;
        assert!(failed.len() == 2 && failed.iter().all(Result::is_err), "zero fails");
        assert_eq!(replies(coalescer.submit(vec![5]).await), [(10, 1)]);
    }

    #[tokio::test]
    async fn a_panic_in_a_call_does_not_block_those_after_it() {
        let coalescer = Coalescer::new(&TaskTracker::new(), |jobs: Vec<u32>| async move {
            assert!(!jobs.contains(&0), "a call that panics");
            jobs.into_iter().map(Ok).collect()
        });
        assert!(coalescer.submit(vec![0]).await[0].is_err(), "it panicked");
        let next = tokio::time::timeout(Duration::from_secs(5), coalescer.submit(vec![1])).await;
        assert_eq!(replies(next.expect("in time")), [1]);
    }
}
