//! How much there is: in a topic, and in the whole store.

use redis::Cmd;

use super::{RedisStore, preflight::requirements, reply::Values};
use crate::{
    job::{Bucket, Topic},
    store::{StoreError, StoreResult, Usage},
};

/// So many jobs of one state of a topic, of all buckets together, tell how large its bodies are: a
/// call takes Redis at most a few milliseconds.
const SAMPLE: usize = 512;
/// Of each bucket, if there are many.
const LEAST_OF_A_BUCKET: usize = 8;

impl RedisStore {
    /// See [`Store::weigh`](crate::store::Store::weigh).
    pub async fn weigh_topic(&self, topic: &Topic) -> StoreResult<Usage> {
        let sample = (SAMPLE / usize::from(self.buckets.get())).max(LEAST_OF_A_BUCKET);
        let begin: f64 = rand::random();
        let fill = |cmd: &mut Cmd, _: &()| {
            cmd.arg(topic.as_str()).arg(sample).arg(begin);
        };
        let read = |reply: &mut Values, _: &()| {
            Ok(Usage { jobs: reply.number()?, bytes: reply.number()? })
        };
        let each = self.each(&self.scripts.weigh, &self.every_bucket(), fill, read).await;
        each.into_iter().try_fold(Usage::default(), |sum, part| Ok(sum.plus(part?)))
    }

    /// See [`Store::usage`](crate::store::Store::usage).
    pub async fn read_usage(&self) -> StoreResult<Usage> {
        let read = |reply: &mut Values, _: &()| reply.number();
        let counts = self.each(&self.scripts.count, &self.every_bucket(), |_, _| {}, read).await;
        let jobs = counts.into_iter().sum::<StoreResult<u64>>()?;
        let mut bytes = 0;
        for master in self.nodes.all() {
            let info = master.node.command(&redis::cmd("INFO")).await;
            let info = info.map_err(|failure| failure.error)?;
            let info: String = redis::from_redis_value(info).map_err(StoreError::unreadable)?;
            let used = requirements::used_memory(&info);
            bytes += used.ok_or_else(|| StoreError::unreadable("an INFO without used_memory"))?;
        }
        Ok(Usage { jobs, bytes })
    }

    fn every_bucket(&self) -> Vec<(Bucket, ())> {
        self.buckets.all().map(|bucket| (bucket, ())).collect()
    }
}
