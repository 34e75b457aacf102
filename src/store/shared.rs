//! The part of the contract for stores that several servers share.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Hint, Store, StoreResult, Subscription};
use crate::job::Bucket;

/// The running servers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// Ids of the servers, in order.
    pub ids: Arc<[String]>,
    /// Index of this process in `ids`.
    pub own: usize,
}

/// A server's lease, renewed every second; it expires after three.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// Id of the server.
    pub server: String,
    /// End of the lease, in Unix milliseconds by the store's clock. Each renewal changes it.
    pub until: f64,
}

/// A store that several processes use at once, and that may consist of several nodes.
#[async_trait]
pub trait SharedStore: Send + Sync {
    /// Returns the first bucket on the same node as `bucket`. Buckets on one node are all available
    /// or all unavailable, and one call may serve several of them. The result changes when buckets
    /// move.
    fn representative(&self, bucket: Bucket) -> Bucket;

    /// Joins the running servers, until [`Store::close`]. Returns the hints of other servers; a
    /// second call returns none.
    async fn join(&self) -> Option<Subscription>;

    /// Returns the servers that were running within the last few seconds. None if this process has
    /// not joined, or cannot read the leases.
    fn servers(&self) -> Option<Servers>;

    /// Returns whether this process is the only server and therefore knows all deadlines and
    /// settings. False if unknown.
    fn is_alone(&self) -> bool;

    /// Reads the leases that have not expired, without joining.
    async fn leases(&self) -> StoreResult<Vec<Lease>>;

    /// Sends a hint to the other processes; it may be lost.
    fn publish(&self, hint: Hint);

    /// Looks through a few of the jobs that a restart of a node may have left half changed, and
    /// mends them. Returns how long to wait before the next call. After a restart, one of the
    /// servers looks through each bucket once.
    async fn walk(&self) -> Duration;
}

impl dyn Store {
    /// See [`SharedStore::representative`]; the first bucket for a store that is not shared.
    pub fn representative(&self, bucket: Bucket) -> Bucket {
        self.shared().map_or(Bucket::FIRST, |shared| shared.representative(bucket))
    }

    /// See [`SharedStore::publish`]; does nothing for a store that is not shared.
    pub fn publish(&self, hint: Hint) {
        if let Some(shared) = self.shared() {
            shared.publish(hint);
        }
    }
}
