//! What a store has written of itself on its servers: the layout on one, an incarnation in every bucket.

use redis::aio::MultiplexedConnection;

use super::preflight::Preflight;
use crate::{
    job::Buckets,
    store::{
        Layout, OpenError,
        redis::{Host, keys},
    },
};

/// Calls of SCAN, each of about 1,000 keys; beyond that a Redis counts as new.
const MOST_SCANS: usize = 1_000;

impl Preflight {
    /// The layout that is written on this server, if any.
    pub async fn layout(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<String>, OpenError> {
        let mut get = redis::cmd("GET");
        self.ask(host, connection, get.arg(keys::layout(&self.prefix))).await
    }

    /// Whether no bucket of a store is here. Where there is one and no layout, the layout is lost, or
    /// another server is making the store at this very moment.
    pub async fn has_no_store(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<bool, OpenError> {
        let pattern = keys::every_incarnation(&self.prefix);
        let mut cursor = 0_u64;
        for _ in 0..MOST_SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let (next, found): (u64, Vec<String>) = self.ask(host, connection, &scan).await?;
            if found.iter().any(|key| keys::is_incarnation(&self.prefix, key)) {
                return Ok(false);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        Ok(true)
    }

    /// Compares the layout; writes it into a new store. Only a new one is written to: a full Redis
    /// must not be refused for a write it does not need.
    pub async fn agree(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        buckets: Buckets,
    ) -> Result<(), OpenError> {
        let found = match self.layout(host, connection).await? {
            Some(found) => Some(found),
            None => {
                let mut set = redis::cmd("SET");
                set.arg(keys::layout(&self.prefix)).arg(Layout::new(buckets).text());
                // Another server may have been faster.
                self.ask(host, connection, set.arg("NX").arg("GET")).await?
            }
        };
        if let Some(found) = found {
            Layout::agree(&found, Some(buckets))?;
        }
        self.agreed.get_or_init(|| buckets);
        Ok(())
    }

    /// The incarnation of each of these keys, made where there is none; and which were missing.
    pub async fn incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
        made: &str,
    ) -> Result<(Vec<String>, Vec<usize>), OpenError> {
        // All are read before one is written: what is forbidden leaves nothing half done.
        let mut all: Vec<Option<String>> = Vec::with_capacity(keys.len());
        for &key in keys {
            let mut get = redis::cmd("GET");
            all.push(self.ask(host, connection, get.arg(key)).await?);
        }
        let mut incarnations = Vec::with_capacity(keys.len());
        let mut missing = Vec::new();
        for (index, (&key, found)) in keys.iter().zip(all).enumerate() {
            let incarnation = match found {
                Some(incarnation) => incarnation,
                None => {
                    let mut set = redis::cmd("SET");
                    set.arg(key).arg(made).arg("NX").arg("GET");
                    let other: Option<String> = self.ask(host, connection, &set).await?;
                    missing.extend(other.is_none().then_some(index));
                    other.unwrap_or_else(|| made.to_owned())
                }
            };
            incarnations.push(incarnation);
        }
        Ok((incarnations, missing))
    }
}
