//! What a store tells of its jobs. Nothing here changes any.

use async_trait::async_trait;

use super::{
    ClaimPage, JobPage, JobRange, Parts, Peek, Steps, StoreResult, StoreResults, Target, TopicPage,
    TopicPeek, Usage,
};
use crate::job::{Bucket, Job, State, Topic};

/// The part of a store that reads jobs.
#[async_trait]
pub trait JobReads: Send + Sync {
    /// Reads who holds the reserved jobs of a topic: one step of a scan from `cursor` on, which tells
    /// of every job that is reserved from its beginning to its end, perhaps twice.
    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ClaimPage>;

    /// Reads how many jobs of each of `topics` are ready and, with `deadlines`, how far the next
    /// deadline is.
    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek>;

    /// Reads one job; none to a caller that may not reach it, whether it can be read or not.
    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>>;

    /// Reads topics that have jobs in this bucket, in the order of their names.
    async fn topics(&self, bucket: Bucket, page: TopicPage)
    -> StoreResult<Vec<(Topic, TopicPeek)>>;

    /// Reads one topic; costs the same however many jobs it has.
    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek>;

    /// Reads how many jobs a topic has in all buckets, and how many bytes their bodies have. A store
    /// may round each body up to 16 bytes, and may estimate the bytes of many jobs from some of them.
    async fn weigh(&self, topic: Topic) -> StoreResult<Usage>;

    /// Reads how many jobs the store has, and how many bytes it takes: of its file what is in use, of
    /// a shared server all that is in its memory.
    async fn usage(&self) -> StoreResult<Usage>;

    /// Counts the delayed jobs of a topic that fall due in each of these steps.
    async fn due_counts(&self, bucket: Bucket, topic: Topic, steps: Steps)
    -> StoreResult<Vec<u64>>;

    /// Reads jobs of one topic and state, in order. Jobs that
    /// stay where they are are neither skipped nor repeated, whatever others do meanwhile. A page
    /// may have fewer than there are: `next` says whether there may be more. A job that cannot be
    /// read is told with the reason.
    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage>;
}
