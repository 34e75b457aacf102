//! Reads of a store, which change nothing.

use async_trait::async_trait;

use super::{
    JobPage, JobRange, Matched, Parts, Peek, ReservedPage, Selection, Steps, StoreResult,
    StoreResults, Target, TopicPage, TopicPeek, Usage,
};
use crate::job::{Bucket, Job, JobId, State, Topic};

/// The part of a store that reads jobs.
#[async_trait]
pub trait JobReads: Send + Sync {
    /// Reads a page of the reserved jobs of a topic, with their reservations. All pages together,
    /// from cursor `None` on, contain every job that stays reserved meanwhile, some perhaps twice.
    async fn held(
        &self,
        bucket: Bucket,
        topic: Topic,
        cursor: Option<String>,
    ) -> StoreResult<ReservedPage>;

    /// Reads the number of ready jobs of each topic and, with `deadlines`, the bucket's next
    /// deadline.
    async fn peek(&self, parts: Parts<Vec<Topic>>, deadlines: bool) -> StoreResults<Peek>;

    /// Reads one job. Returns none, even for a damaged job, if the caller may not access its topic.
    async fn get(&self, bucket: Bucket, target: Target) -> StoreResult<Option<Job>>;

    /// Reads the states of jobs; none for a job that does not exist or is in no set of a topic.
    async fn states(&self, parts: Parts<Vec<JobId>>) -> StoreResults<Vec<Option<State>>>;

    /// Reads topics that have jobs in this bucket, ordered by name.
    async fn topics(&self, bucket: Bucket, page: TopicPage)
    -> StoreResult<Vec<(Topic, TopicPeek)>>;

    /// Reads one topic, at a cost that does not depend on its number of jobs.
    async fn topic(&self, bucket: Bucket, topic: Topic) -> StoreResult<TopicPeek>;

    /// Reads the number of jobs of a topic in all buckets, and the bytes of their bodies. A store
    /// may round the size of a body up: to a multiple of 16 bytes or, from 64 KiB on, by at most
    /// one part in 2,048. It may estimate the bytes of many jobs from a sample.
    async fn topic_usage(&self, topic: Topic) -> StoreResult<Usage>;

    /// Reads the number of jobs of the store, and the bytes it uses: the used part of its file, or
    /// all memory of the server, which may also hold other data.
    async fn usage(&self) -> StoreResult<Usage>;

    /// Counts the delayed jobs of a topic that fall due in each step.
    async fn due_counts(&self, bucket: Bucket, topic: Topic, steps: Steps)
    -> StoreResult<Vec<u64>>;

    /// Reads jobs of one topic and state, in order. Pages neither skip nor repeat a job whose place
    /// does not change. A page may be incomplete: `next` says whether more may follow. Damaged jobs
    /// are reported with the reason. With a filter, examines a bounded number of jobs.
    async fn list(
        &self,
        bucket: Bucket,
        topic: Topic,
        state: State,
        range: JobRange,
    ) -> StoreResult<JobPage>;

    /// Counts the jobs that match a filter, among a bounded number of jobs, unless the order of the
    /// jobs alone decides.
    async fn count_matching(
        &self,
        bucket: Bucket,
        selection: Selection,
    ) -> StoreResult<Matched<u64>>;
}
