//! What servers on one Redis know of each other, and which buckets are on the same node.

use async_trait::async_trait;

use super::RedisStore;
use crate::{
    job::Bucket,
    store::{Hint, SharedStore, StoreResult, Subscription},
};

#[async_trait]
impl SharedStore for RedisStore {
    fn representative(&self, bucket: Bucket) -> Bucket {
        if self.nodes.is_one() {
            return Bucket::FIRST;
        }
        let slot = self.nodes.representative(self.keys[bucket.index()].slot);
        self.by_slot.get(&slot).copied().unwrap_or(bucket)
    }

    fn is_alone(&self, bucket: Bucket) -> bool {
        !self.hints.has_others(self.representative(bucket))
    }

    fn subscribe(&self) -> Option<Subscription> {
        self.hints.subscribe()
    }

    fn publish(&self, hint: Hint) {
        self.hints.publish(hint);
    }

    async fn live_servers(&self) -> StoreResult<u64> {
        self.hints.listeners().await
    }
}
