//! Confirmation of writes: whether a server can keep the promise of `store.ack`, and by which
//! command.

use redis::aio::MultiplexedConnection;

use super::{Preflight, redis_at, requirements, unfit};
use crate::store::{
    OpenError,
    redis::{Ack, Host, transport::Confirmation},
};

/// Timeout of the first confirmation, in milliseconds. A replica that has just connected reports
/// within a second.
const FIRST_TIMEOUT_MS: u32 = 3_000;
/// First version with `WAITAOF`, which confirms that the AOF is on disk.
const WAITAOF_SINCE: (u32, u32) = (7, 2);

impl Preflight {
    /// Chooses the confirmation of writes. The `INFO` of the first server decides for all, so that
    /// all answers have the same durability.
    fn by(&self, info: &str) -> Option<Confirmation> {
        match self.ack {
            Ack::Memory => None,
            Ack::Replica => Some(Confirmation::Replica),
            Ack::Fsync => *self.fsync.get_or_init(|| {
                (requirements::version(info) >= Some(WAITAOF_SINCE)).then_some(Confirmation::Aof)
            }),
        }
    }

    /// Returns the chosen confirmation, after a server was inspected.
    pub fn chosen(&self) -> Option<Confirmation> {
        self.by("")
    }

    /// Requests a first confirmation, before any write.
    pub async fn confirms(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        info: &str,
    ) -> Result<(), OpenError> {
        let Some(by) = self.by(info) else { return Ok(()) };
        let answer: redis::Value =
            self.ask(host, connection, &by.command(FIRST_TIMEOUT_MS)).await?;
        if by.is_confirmed(&answer) { Ok(()) } else { Err(not_confirmed(by, host)) }
    }

    /// Checks that a server can confirm writes by the chosen command.
    pub async fn can_confirm(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        info: &str,
    ) -> Result<(), OpenError> {
        match (self.ack, self.by(info)) {
            (Ack::Memory | Ack::Replica, _) => Ok(()),
            (Ack::Fsync, None) => self.syncs_always(host, connection).await,
            (Ack::Fsync, Some(_)) if requirements::version(info) >= Some(WAITAOF_SINCE) => Ok(()),
            (Ack::Fsync, Some(_)) => {
                let why = "store.ack = \"fsync\" needs Redis 7.2 here too, as on the other servers";
                Err(unfit(host, why))
            }
        }
    }

    /// Returns whether `store.ack` relies on settings that can change while the server runs.
    pub fn relies_on_sync(&self) -> bool {
        self.ack == Ack::Fsync && self.chosen().is_none()
    }

    /// Checks by its `INFO` that a server can still confirm writes.
    pub fn keeps_promise(&self, info: &str) -> Result<(), String> {
        match self.ack {
            Ack::Replica if !requirements::has_replica(info) => Err(NO_REPLICA.to_owned()),
            Ack::Fsync if !requirements::has_aof(info) => Err(requirements::NO_AOF.to_owned()),
            Ack::Memory | Ack::Replica | Ack::Fsync => Ok(()),
        }
    }

    /// Checks that every write is synced at once. Without `WAITAOF`, only then is an answered write
    /// on disk.
    async fn syncs_always(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg("appendfsync");
        let found: Vec<String> = self.ask(host, connection, &get).await?;
        let info: String = self.ask(host, connection, &redis::cmd("INFO")).await?;
        let unsynced = requirements::unsynced(&info, found.get(1));
        unsynced.map_or(Ok(()), |why| Err(unfit(host, &why)))
    }
}

const NO_REPLICA: &str = "store.ack = \"replica\" needs a connected replica, and none answers";

/// Returns the error for a missing confirmation, which is temporary if a replica may still connect.
fn not_confirmed(by: Confirmation, host: &Host) -> OpenError {
    match by {
        Confirmation::Replica => {
            OpenError::Unavailable { subject: redis_at(host), cause: NO_REPLICA.to_owned() }
        }
        Confirmation::Aof => {
            let why =
                "store.ack = \"fsync\" needs a synced AOF, but no sync completed: check the disk";
            unfit(host, why)
        }
    }
}
