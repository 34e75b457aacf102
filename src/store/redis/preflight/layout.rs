//! Layout of the store: written on one server, compared at every start.

use redis::aio::MultiplexedConnection;

use super::Preflight;
use crate::{
    job::Buckets,
    store::{
        Layout, OpenError,
        redis::{Host, keys, url::Kind},
    },
};

/// Maximum number of calls of SCAN, each of about 1,000 keys. If they find no incarnation, the
/// Redis counts as new.
const MAX_SCANS: usize = 1_000;

/// Returns the number of buckets of a new store. One Redis needs only one bucket, because each
/// further bucket of a call costs commands, which Redis runs in one thread. Each bucket also costs
/// a timer, so a cluster gets just enough buckets that no master has much more than its share.
pub fn default_buckets(kind: &Kind, masters: usize) -> Buckets {
    match (kind, masters) {
        (Kind::Single | Kind::Sentinel { .. }, _) => Buckets::ONE,
        (Kind::Cluster, 0..=3) => Buckets::SIXTEEN,
        (Kind::Cluster, 4..=12) => Buckets::SIXTY_FOUR,
        (Kind::Cluster, _) => Buckets::TWO_HUNDRED_FIFTY_SIX,
    }
}

impl Preflight {
    /// Reads the layout from this server, if it has one.
    pub async fn layout(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<String>, OpenError> {
        let mut get = redis::cmd("GET");
        self.ask(host, connection, get.arg(keys::layout(&self.prefix))).await
    }

    /// Finds about `most` incarnations of buckets on this server. If there are some but no layout,
    /// either the layout is lost, or another server is just creating the store.
    pub async fn found_incarnations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        most: usize,
    ) -> Result<Vec<String>, OpenError> {
        let pattern = keys::every_incarnation(&self.prefix);
        let (mut cursor, mut all) = (0_u64, Vec::new());
        for _ in 0..MAX_SCANS {
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

    /// Compares the layout and takes the key of reservations. Writes both only into a new store: an
    /// existing store does not need the writes, and they would fail in a full Redis.
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
            // Another server may have written the layout first.
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
