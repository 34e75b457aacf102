//! Counts of ready jobs.

use redis::Pipeline;

use super::{
    RedisStore,
    reply::Values,
    timers::{Answers, next},
};
use crate::{
    job::{Bucket, State, Topic},
    store::StoreResult,
};

/// Ready lists of one `EXISTS`. If any of them has jobs, the length of each is read.
const LISTS_AT_ONCE: usize = 128;

impl RedisStore {
    /// Counts the ready jobs of each topic, in buckets whose keys may share a command. Most
    /// requested lists are empty, even of topics with delayed jobs: one command finds that out for
    /// many lists.
    pub async fn count_ready(&self, parts: &[(Bucket, Vec<Topic>)]) -> StoreResult<Vec<Vec<u64>>> {
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
        let mut lengths = self.ask(parts, &lengths).await?;
        let mut index = 0;
        let mut length = |topic: &Topic| {
            index += 1;
            if has_jobs[(index - 1) / LISTS_AT_ONCE] { length(&mut lengths, topic) } else { 0 }
        };
        let mut counts = Vec::with_capacity(parts.len());
        for (_, topics) in parts {
            counts.push(topics.iter().map(&mut length).collect());
        }
        Ok(counts)
    }
}

/// Returns the length of a ready list: 0 if the key has a wrong type, which affects this topic
/// alone.
fn length(lengths: &mut Answers, topic: &Topic) -> u64 {
    let length = next(lengths).and_then(|length| Values::one(length).number());
    length.unwrap_or_else(|error| {
        tracing::debug!(%topic, %error, "failed to count ready jobs");
        0
    })
}
