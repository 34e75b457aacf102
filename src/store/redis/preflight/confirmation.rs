//! Whether a server can give what `store.ack` promises, and by which command.

use redis::aio::MultiplexedConnection;

use super::{Preflight, redis_at, requirements, unfit};
use crate::store::{
    OpenError,
    redis::{Ack, Host, transport::Confirmation},
};

/// How long the first confirmation may take, in milliseconds: a replica that has just come tells of
/// itself within a second.
const FIRST_TIMEOUT_MS: u32 = 3_000;
/// From this version on, `WAITAOF` says when the AOF is on disk.
const WAITAOF_SINCE: (u32, u32) = (7, 2);

impl Preflight {
    /// What confirms writes: by the first server's `INFO`, and then for all, so that no answer is
    /// worth less than another.
    fn by(&self, info: &str) -> Option<Confirmation> {
        match self.ack {
            Ack::Memory => None,
            Ack::Replica => Some(Confirmation::Replica),
            Ack::Fsync => *self.fsync.get_or_init(|| {
                (requirements::version(info) >= Some(WAITAOF_SINCE)).then_some(Confirmation::Aof)
            }),
        }
    }

    /// The same, once a server was inspected.
    pub fn chosen(&self) -> Option<Confirmation> {
        self.by("")
    }

    /// Asks for a first confirmation, of nothing yet.
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

    /// Whether a server can confirm writes in the way that was chosen.
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
                let why = "store.ack = \"fsync\" needs Redis 7.2, as the other servers are";
                Err(unfit(host, why))
            }
        }
    }

    /// Whether `store.ack` relies on settings of the server that can be changed while it runs.
    pub fn relies_on_sync(&self) -> bool {
        self.ack == Ack::Fsync && self.chosen().is_none()
    }

    /// Whether a server can still confirm writes, by its `INFO`.
    pub fn keeps_promise(&self, info: &str) -> Result<(), String> {
        match self.ack {
            Ack::Replica if !requirements::has_replica(info) => Err(NO_REPLICA.to_owned()),
            Ack::Fsync if !requirements::has_aof(info) => Err(requirements::NO_AOF.to_owned()),
            Ack::Memory | Ack::Replica | Ack::Fsync => Ok(()),
        }
    }

    /// Without `WAITAOF`, an answer means "on disk" only where every write is synced at once.
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

/// Why a server does not do that does not confirm a write. A replica may come yet.
fn not_confirmed(by: Confirmation, host: &Host) -> OpenError {
    match by {
        Confirmation::Replica => {
            OpenError::Away { what: redis_at(host), cause: NO_REPLICA.to_owned() }
        }
        Confirmation::Aof => {
            let why = "store.ack = \"fsync\" needs an AOF that is synced to disk, and it is not";
            unfit(host, why)
        }
    }
}
