//! The part of the contract that only a store shared by several servers has.

use async_trait::async_trait;

use super::{Hint, Store, StoreResult, Subscription};
use crate::job::Bucket;

/// A store that several processes use at once, and that may itself be several servers.
#[async_trait]
pub trait SharedStore: Send + Sync {
    /// The first bucket on the same server as this one, so that both are reachable or neither, and
    /// calls for them may go together. It becomes another one when buckets move.
    fn representative(&self, bucket: Bucket) -> Bucket;

    /// Whether only this process works on the bucket, by the hints received: then it knows all
    /// deadlines and settings itself.
    fn is_alone(&self, bucket: Bucket) -> bool;

    /// The hints of other processes. The first call subscribes; later ones return none.
    fn subscribe(&self) -> Option<Subscription>;

    /// Sends a hint to the other processes; it may be lost.
    fn publish(&self, hint: Hint);

    /// How many servers work on this store, this process included if it subscribes.
    async fn live_servers(&self) -> StoreResult<u64>;
}

impl dyn Store {
    /// See [`SharedStore::representative`]; one bucket stands for all in a store of this process.
    pub fn representative(&self, bucket: Bucket) -> Bucket {
        self.shared().map_or(Bucket::FIRST, |shared| shared.representative(bucket))
    }

    /// See [`SharedStore::publish`]; nothing in a store of this process.
    pub fn publish(&self, hint: Hint) {
        if let Some(shared) = self.shared() {
            shared.publish(hint);
        }
    }
}
