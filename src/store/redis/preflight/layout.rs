//! The layout of the store: written on one server, compared at every start.

use redis::aio::MultiplexedConnection;

use super::Preflight;
use crate::{
    job::Buckets,
    store::{
        Layout, OpenError,
        redis::{Host, keys},
    },
};

/// Calls of SCAN, each of about 1,000 keys; beyond that a Redis counts as new.
const MOST_SCANS: usize = 1_000;

/// How many buckets a new store gets: enough that the fullest of so many masters has little more
/// than its share, and no more, since every timer costs (see ARCHITECTURE.md).
pub fn default_buckets(masters: usize) -> Buckets {
    match masters {
        0..=3 => Buckets::SIXTEEN,
        4..=12 => Buckets::SIXTY_FOUR,
        _ => Buckets::TWO_HUNDRED_FIFTY_SIX,
    }
}

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

    /// Incarnations of buckets that are here, about `most` of them. Where there is one and no layout,
    /// the layout is lost, or another server is making the store at this very moment.
    pub async fn found_incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        most: usize,
    ) -> Result<Vec<String>, OpenError> {
        let pattern = keys::every_incarnation(&self.prefix);
        let (mut cursor, mut all) = (0_u64, Vec::new());
        for _ in 0..MOST_SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let (next, found): (u64, Vec<String>) = self.ask(host, connection, &scan).await?;
            all.extend(found.into_iter().filter(|key| keys::is_incarnation(&self.prefix, key)));
            if next == 0 || all.len() >= most {
                break;
            }
            cursor = next;
        }
        Ok(all)
    }

    /// Compares the layout, and takes the key of reservations; writes both into a new store. Only a new one is written to: a full Redis
    /// must not be refused for a write it does not need.
    pub async fn agree(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        buckets: Buckets,
    ) -> Result<(), OpenError> {
        let found = self.layout(host, connection).await?;
        if let Some(found) = &found {
            Layout::agree(found, Some(buckets))?;
        }
        self.agree_on_reservations(host, connection).await?;
        if found.is_none() {
            let mut set = redis::cmd("SET");
            set.arg(keys::layout(&self.prefix)).arg(Layout::new(buckets).text());
            // Another server may have been faster.
            let other: Option<String> =
                self.ask(host, connection, set.arg("NX").arg("GET")).await?;
            if let Some(other) = other {
                Layout::agree(&other, Some(buckets))?;
            }
        }
        self.agreed.get_or_init(|| buckets);
        Ok(())
    }
}
