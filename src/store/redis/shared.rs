//! Knowledge that servers on one Redis share: their leases, and the buckets of each node.

use std::time::Duration;

use async_trait::async_trait;

use super::RedisStore;
use crate::{
    job::Bucket,
    store::{Hint, Lease, Servers, SharedStore, StoreResult, Subscription},
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

    async fn join(&self) -> Option<Subscription> {
        let heard = self.hints.subscribe()?;
        self.leases.join().await;
        Some(heard)
    }

    fn servers(&self) -> Option<Servers> {
        self.leases.servers()
    }

    fn is_alone(&self) -> bool {
        self.leases.is_alone()
    }

    async fn leases(&self) -> StoreResult<Vec<Lease>> {
        self.leases.read().await
    }

    fn publish(&self, hint: Hint) {
        self.hints.publish(hint);
    }

    async fn walk(&self) -> Duration {
        self.take_step().await
    }
}
