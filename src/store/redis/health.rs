//! Health of the servers for `/readyz`: whether they accept writes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::join_all;
use redis::Pipeline;

use super::{
    RedisStore, keys,
    preflight::requirements,
    topology::Master,
    transport::{Failure, error::Remedy},
};
use crate::store::{StoreError, StoreResult};

/// Results of the last check.
#[derive(Default)]
pub struct Health {
    is_full: AtomicBool,
    refuses_writes: AtomicBool,
}

impl Health {
    /// Returns whether a server has no memory left.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns whether a server refuses writes.
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Ordering::Relaxed)
    }
}

/// Writes that a server accepts.
enum Writes {
    All,
    /// Accepts only writes that add no jobs.
    Freeing,
    Refused(StoreError),
}

impl RedisStore {
    /// Checks that at least one server is available, fit, and accepts writes. The buckets of a
    /// server that fails refuse their calls themselves.
    pub async fn check_servers(&self) -> StoreResult<()> {
        let masters = self.nodes.all();
        let looks = join_all(masters.iter().map(|master| self.check_server(master))).await;
        let (mut is_full, mut refuses, mut works) = (false, false, false);
        let mut last = StoreError::unavailable("the store has no server");
        for look in looks {
            match look {
                Ok(Writes::All) => works = true,
                Ok(Writes::Freeing) => (works, is_full) = (true, true),
                Ok(Writes::Refused(error)) => (refuses, last) = (true, error),
                // Sets no flag, because the buckets of this server are reported as unavailable,
                // which says more.
                Err(error) => last = error,
            }
        }
        self.health.is_full.store(is_full, Ordering::Relaxed);
        self.health.refuses_writes.store(refuses, Ordering::Relaxed);
        if works { Ok(()) } else { Err(last) }
    }

    async fn check_server(&self, master: &Arc<Master>) -> StoreResult<Writes> {
        let info = master.node.command(&redis::cmd("INFO")).await.map_err(|f| f.error)?;
        let info: String = redis::from_redis_value(info).map_err(StoreError::unreadable)?;
        master.note(&info);
        let fit = self.preflight.keeps_promise(&info).and_then(|()| self.preflight.works(&info));
        if let Err(why) = fit {
            let cause = format!("Redis at {}: {why}", master.node.name);
            return Ok(Writes::Refused(StoreError::unavailable(cause)));
        }
        if let Err(failure) = master.check_writes() {
            return Ok(Writes::Refused(failure.error));
        }
        let writes = self.try_writes(master).await?;
        Ok(match writes {
            Writes::All if requirements::is_full(&info) => Writes::Freeing,
            writes => writes,
        })
    }

    /// Tries two writes that change nothing. Redis refuses them before it looks up their key. The
    /// second one needs memory.
    async fn try_writes(&self, master: &Arc<Master>) -> StoreResult<Writes> {
        let Some(key) = self.absent_key_on(master) else { return Ok(Writes::All) };
        let mut tries = Pipeline::with_capacity(2);
        tries.cmd("HDEL").arg(&key).arg("f");
        tries.cmd("SET").arg(&key).arg("").arg("XX");
        let answers = master.node.pipeline(&tries).await.map_err(|failure| failure.error)?;
        for answer in answers {
            match answer {
                Err(Failure { remedy: Remedy::FreeRoom, .. }) => return Ok(Writes::Freeing),
                Err(Failure { remedy: Remedy::Mend | Remedy::AskRights, error }) => {
                    return Ok(Writes::Refused(error));
                }
                Err(Failure { remedy: Remedy::FindMaster, error }) => return Err(error),
                // The slot is migrating, so the answer says nothing about the server.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(Writes::All)
    }

    /// Returns a key that never exists, in a slot of this server.
    fn absent_key_on(&self, master: &Arc<Master>) -> Option<String> {
        let of_buckets = self.keys.iter().map(|keys| keys.absent.clone());
        of_buckets
            .chain(keys::outside_buckets(&self.prefix))
            .find(|key| self.nodes.of(keys::slot(key)).is_ok_and(|of| Arc::ptr_eq(&of, master)))
    }
}
