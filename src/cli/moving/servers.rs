//! Ensures that no server uses the store during an export or import. Otherwise the command would
//! miss or duplicate jobs that change at the same time.
//!
//! A file store has a lock for this. On Redis, each server renews a lease every second.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use crate::store::{Lease, Store, StoreResult};

/// Maximum wait for the lease of a killed server to end. A lease lasts three seconds, or longer if
/// the clock of Redis was set back.
const MAX_WAIT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Proof that no server was using the store when the export or import began.
pub struct NoServers {
    /// Leases that did not end within [`MAX_WAIT`], although no server renewed them.
    abandoned: Vec<Lease>,
}

impl NoServers {
    /// Waits until every lease has ended.
    ///
    /// # Errors
    /// A server has renewed or taken a lease, or the leases cannot be read.
    pub async fn wait(store: &dyn Store) -> Result<Self, Box<dyn Error>> {
        let mut leases = read(store).await?;
        let (first, end) = (leases.clone(), Instant::now() + MAX_WAIT);
        while !leases.is_empty() && Instant::now() < end {
            tokio::time::sleep(POLL_INTERVAL).await;
            leases = read(store).await?;
            if leases.iter().any(|lease| !first.contains(lease)) {
                return Err(match leases.len() {
                    1 => "a server is using this store: stop it first".into(),
                    _ => "servers are using this store: stop all of them first".to_owned().into(),
                });
            }
        }
        Ok(Self { abandoned: leases })
    }

    /// Returns whether a server has started since [`wait`](Self::wait).
    ///
    /// # Errors
    /// The leases cannot be read.
    pub async fn has_server_started(&self, store: &dyn Store) -> StoreResult<bool> {
        Ok(read(store).await?.iter().any(|lease| !self.abandoned.contains(lease)))
    }
}

async fn read(store: &dyn Store) -> StoreResult<Vec<Lease>> {
    match store.shared() {
        Some(shared) => shared.leases().await,
        None => Ok(Vec::new()),
    }
}
