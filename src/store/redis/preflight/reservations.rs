//! The secret key of reservations, which all servers of a store share.

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

/// Keeps the key that is there, or else the given one; answers the one that was there. A full Redis
/// refuses a script that begins with a write which needs room: this one begins with another.
const KEEP: &str =
    "redis.call('HDEL', KEYS[2], '') return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET')";

impl Preflight {
    /// The key that was agreed on last.
    pub fn reservation_key(&self) -> Arc<ReservationKey> {
        Arc::clone(&self.reservation_key.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the key that the store has. A store without one gets that of this process: a new store, one
    /// of an older version, or one that has lost it.
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

    /// Gives a store without a key that of this process; answers the key that it had.
    pub fn keep_reservation_key(&self) -> Cmd {
        let mut keep = redis::cmd("EVAL");
        let name = keys::reservations(&self.prefix);
        keep.arg(KEEP).arg(2).arg(name).arg(keys::absent_by_layout(&self.prefix));
        keep.arg(self.reservation_key().reveal());
        keep
    }

    /// Takes the key that the store had, if it had one.
    pub fn take_reservation_key(&self, found: Option<String>) -> Result<(), String> {
        let Some(found) = found else { return Ok(()) };
        let name = keys::reservations(&self.prefix);
        let key = found.parse().map_err(|_| {
            format!("{name} is damaged: delete it, and the next start makes another one")
        })?;
        *self.reservation_key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(())
    }
}
