//! Counts of ready jobs.

use redis::{Pipeline, Value};

use super::{
    RedisStore,
    reply::Values,
    score::priority_of_ready,
    timers::{Answers, next},
};
use crate::{
    job::{Bucket, Priority, State, Topic},
    store::{ReadyJobs, StoreError, StoreResult},
};

/// Number of ready lists that one `EXISTS` tests. If any of them has jobs, the length of each is
/// read.
const LISTS_AT_ONCE: usize = 128;

impl RedisStore {
    /// Counts the ready jobs of each topic, in buckets whose keys may share a command. Most of the
    /// lists are empty, even for topics with delayed jobs, and one command shows this for many
    /// lists. With a single bucket, priorities are not read, because nothing depends on them.
    pub async fn count_ready(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
    ) -> StoreResult<Vec<Vec<ReadyJobs>>> {
        let key = |bucket: Bucket, topic| self.keys[bucket.index()].topic(State::Ready, topic);
        let keys = parts
            .iter()
            .flat_map(|(bucket, topics)| topics.iter().map(|topic| key(*bucket, topic)));
        let keys: Vec<String> = keys.collect();
        let mut exist = Pipeline::new();
        for some in keys.chunks(LISTS_AT_ONCE) {
            exist.cmd("EXISTS").arg(some);
        }
        let mut exist = self.ask(parts, &exist).await?;
        let mut has_jobs = Vec::with_capacity(exist.len());
        let mut lengths = Pipeline::new();
        for some in keys.chunks(LISTS_AT_ONCE) {
            has_jobs.push(Values::one(next(&mut exist)?).number()? > 0);
            if has_jobs.last() == Some(&true) {
                for key in some {
                    lengths.cmd("ZCARD").arg(key);
                }
            }
        }
        let mut answers = self.ask(parts, &lengths).await?;
        let mut counts = vec![0; keys.len()];
        let topics = || parts.iter().flat_map(|(_, topics)| topics);
        for (index, topic) in topics().enumerate() {
            if has_jobs[index / LISTS_AT_ONCE] {
                counts[index] = length(&mut answers, topic);
            }
        }
        let highest = self.highest_priorities(parts, &keys, &counts).await?;
        let mut ready =
            counts.into_iter().zip(highest).map(|(count, highest)| ReadyJobs { count, highest });
        Ok(parts.iter().map(|(_, topics)| ready.by_ref().take(topics.len()).collect()).collect())
    }

    /// Reads the priority of the first job of each list with jobs.
    async fn highest_priorities(
        &self,
        parts: &[(Bucket, Vec<Topic>)],
        keys: &[String],
        counts: &[u64],
    ) -> StoreResult<Vec<Priority>> {
        let mut highest = vec![Priority::STANDARD; keys.len()];
        if self.buckets.get() == 1 {
            return Ok(highest);
        }
        let mut heads = Pipeline::new();
        for (key, _) in keys.iter().zip(counts).filter(|(_, count)| **count > 0) {
            heads.cmd("ZRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES");
        }
        let mut heads = self.ask(parts, &heads).await?;
        for (index, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            highest[index] = head_priority(next(&mut heads)?)?;
        }
        Ok(highest)
    }
}

/// Reads the priority of the first job of a ready list, which may be empty by now.
fn head_priority(head: Value) -> StoreResult<Priority> {
    let mut head = Values::new(head)?;
    if head.left() == 0 {
        return Ok(Priority::STANDARD);
    }
    head.text()?;
    Ok(priority_of_ready(head.text()?.parse().map_err(StoreError::unreadable)?))
}

/// Returns the length of a ready list. Returns 0 if the key has a wrong type, which affects only
/// this topic.
fn length(lengths: &mut Answers, topic: &Topic) -> u64 {
    let length = next(lengths).and_then(|length| Values::one(length).number());
    length.unwrap_or_else(|error| {
        tracing::debug!(%topic, %error, "failed to count ready jobs");
        0
    })
}
