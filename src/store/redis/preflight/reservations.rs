//! Secret key of reservations, which all servers of a store share.

use std::sync::{Arc, PoisonError};

use redis::{Cmd, aio::MultiplexedConnection};

use super::{Preflight, unfit};
use crate::{
    job::ReservationKey,
    store::{
        OpenError,
        redis::{Host, keys},
    },
};

/// Stores the given key if there is none; returns the key found. Begins with a write that needs no
/// memory, because a full Redis refuses scripts whose first write needs some.
const KEEP: &str =
    "redis.call('HDEL', KEYS[2], '') return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET')";

impl Preflight {
    /// Returns the key of reservations that this process uses now.
    pub fn reservation_key(&self) -> Arc<ReservationKey> {
        Arc::clone(&self.reservation_key.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the store's key. A store without one gets the key of this process. Such a store is
    /// new, or has lost its key.
    pub async fn agree_on_reservations(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let name = keys::reservations(&self.prefix);
        let mut get = redis::cmd("GET");
        let mut found: Option<String> = self.ask(host, connection, get.arg(&name)).await?;
        if found.is_none() {
            found = self.ask(host, connection, &self.keep_reservation_key()).await?;
        }
        self.take_reservation_key(found).map_err(|why| unfit(host, &why))
    }

    /// Builds the call that stores this process's key if the store has none, and returns the
    /// existing key otherwise.
    pub fn keep_reservation_key(&self) -> Cmd {
        let mut keep = redis::cmd("EVAL");
        let name = keys::reservations(&self.prefix);
        keep.arg(KEEP).arg(2).arg(name).arg(keys::absent_by_layout(&self.prefix));
        keep.arg(self.reservation_key().reveal());
        keep
    }

    /// Takes the existing key of the store, if there is one.
    pub fn take_reservation_key(&self, found: Option<String>) -> Result<(), String> {
        let Some(found) = found else { return Ok(()) };
        let name = keys::reservations(&self.prefix);
        let key = found.parse().map_err(|_| {
            format!("the key {name} is damaged: delete it, and the next start creates another one")
        })?;
        *self.reservation_key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(())
    }
}
