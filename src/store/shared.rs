//! The part of the contract that only a store shared by several servers has.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Hint, Store, StoreResult, Subscription};
use crate::job::Bucket;

/// The servers at work on a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// Their ids, in order.
    pub ids: Arc<[String]>,
    /// Which of them is this process.
    pub own: usize,
}

/// A server's claim to be at work. It is renewed every second, and ends by itself after three.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// The id of the server.
    pub server: String,
    /// When it ends, in Unix milliseconds by the store's clock. Each renewal changes it.
    pub until: f64,
}

/// A store that several processes use at once, and that may itself be several servers.
#[async_trait]
pub trait SharedStore: Send + Sync {
    /// The first bucket on the same server as this one, so that both are reachable or neither, and
    /// calls for them may go together. It becomes another one when buckets move.
    fn representative(&self, bucket: Bucket) -> Bucket;

    /// Joins the servers at work, until [`Store::close`]. Returns the hints of other servers; a second
    /// call returns none.
    async fn join(&self) -> Option<Subscription>;

    /// The servers at work, as of the last few seconds. None if this process has not joined them, or
    /// cannot read who they are.
    fn servers(&self) -> Option<Servers>;

    /// Whether this process is the only server: then it knows all deadlines and settings itself.
    /// False if that is not known.
    fn is_alone(&self) -> bool;

    /// Reads the leases that have not ended. Writes nothing and joins nothing.
    async fn leases(&self) -> StoreResult<Vec<Lease>>;

    /// Sends a hint to the other processes; it may be lost.
    fn publish(&self, hint: Hint);
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
