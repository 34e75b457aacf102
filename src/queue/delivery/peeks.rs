//! Peeks for ready jobs, shared by concurrent pops.
//!
//! One peek at a time runs on each server of the store. Pops that arrive during a peek share the
//! next one. They cannot use the running one, because its answer may omit a job that became ready
//! before the pops arrived.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::queue::{
    batching::coalescer::Coalescer, batching::dispatcher::divide, context::Context,
};
use crate::{
    job::{Bucket, Topic},
    store::{StoreError, StoreResult, StoreResults},
};

/// Maximum time that a peek at one server may delay jobs found on other servers.
const PEEK_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of ready lists in one call of the store: more would make a request of many
/// megabytes.
const MAX_LISTS: usize = 1 << 17;

/// Shared peeks at every bucket, for pops of topics without a mark (see `queue/waiters.rs`).
pub struct Peeks {
    context: Context,
    /// Indexed by bucket; only buckets that represent a server are used.
    coalescers: Vec<Coalescer<Question, ()>>,
}

struct Question {
    buckets: Vec<Bucket>,
    topics: Vec<Topic>,
}

impl Peeks {
    pub fn new(context: &Context) -> Self {
        let coalescer = |_| {
            let asking = context.clone();
            Coalescer::new(&context.calls, move |questions| ask(asking.clone(), questions))
        };
        let coalescers = context.store.buckets().all().map(coalescer).collect();
        Self { context: context.clone(), coalescers }
    }

    /// Peeks at every bucket, and marks those with ready jobs of these topics. Finds every job that
    /// was ready at the time of the call, unless a pop has claimed the job.
    ///
    /// # Errors
    /// The error of a bucket that could not be read. All other buckets were read.
    pub async fn peek(&self, topics: &[Topic]) -> StoreResult<()> {
        let store = &self.context.store;
        let all = store.buckets().all().collect();
        let (servers, _) = divide(all, |&bucket| store.representative(bucket));
        let peeks = servers.into_iter().map(async |(server, buckets)| {
            let question = Question { buckets, topics: topics.to_vec() };
            let asked = self.coalescers[server.index()].submit(vec![question]);
            let answers = timeout(PEEK_TIMEOUT, asked).await.map_err(|_| no_answer())?;
            answers.into_iter().collect::<StoreResult<()>>().map_err(StoreError::of_read)
        });
        join_all(peeks).await.into_iter().collect()
    }
}

async fn ask(context: Context, questions: Vec<Question>) -> StoreResults<()> {
    let mut outcomes = Vec::with_capacity(questions.len());
    // If buckets moved between servers meanwhile, the questions name different buckets.
    for same in questions.chunk_by(|a, b| a.buckets == b.buckets) {
        let mut topics: Vec<Topic> = same.iter().flat_map(|one| &one.topics).cloned().collect();
        topics.sort_unstable();
        topics.dedup();
        let outcome = look(&context, &same[0].buckets, &topics).await;
        outcomes.extend(same.iter().map(|_| outcome.clone()));
    }
    outcomes
}

async fn look(context: &Context, buckets: &[Bucket], topics: &[Topic]) -> StoreResult<()> {
    let mut all = Ok(());
    for topics in topics.chunks((MAX_LISTS / buckets.len()).max(1)) {
        let parts = buckets.iter().map(|&bucket| (bucket, topics.to_vec())).collect();
        for (&bucket, peek) in buckets.iter().zip(context.store.peek(parts, false).await) {
            match peek {
                Ok(peek) => context.waiters.found(bucket, topics, &peek.ready),
                Err(error) => all = Err(error),
            }
        }
    }
    all
}

fn no_answer() -> StoreError {
    StoreError::unavailable(format!("a bucket did not answer within {PEEK_TIMEOUT:?}"))
}
