//! What must hold of a server before it is used: it is fit, may do what we need, and can give what
//! `store.ack` promises.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind, aio::MultiplexedConnection};

use super::{
    confirm::By,
    policy::{self, Expected},
};
use crate::{
    job::Buckets,
    store::{
        OpenError,
        redis::{Ack, Host, Kind, RedisOptions, keys},
    },
};

/// Asks whether the user may do what the store needs.
const PROBE: &str = include_str!("probe.lua");
/// How long the first confirmation may take, in milliseconds: a replica that has just come tells of
/// itself within a second.
const START_PATIENCE: u32 = 3_000;
/// From this version on, `WAITAOF` says when the AOF is on disk.
const WAITAOF_SINCE: (u32, u32) = (7, 2);

/// The questions asked of every new connection.
#[derive(Clone)]
pub struct Opening {
    pub prefix: String,
    accept_data_loss: bool,
    expected: Expected,
    ack: Ack,
    /// What confirms that a write is on disk, once the first server was seen.
    fsync: Arc<OnceLock<Option<By>>>,
    /// What was agreed on when the store was opened.
    pub agreed: Arc<OnceLock<Buckets>>,
}

impl Opening {
    pub fn new(options: &RedisOptions) -> Self {
        let expected = match options.url.kind {
            Kind::Single | Kind::Sentinel { .. } => Expected::Standalone,
            Kind::Cluster => Expected::ClusterNode,
        };
        let RedisOptions { prefix, accept_data_loss, ack, .. } = options;
        Self {
            prefix: prefix.clone(),
            accept_data_loss: *accept_data_loss,
            expected,
            ack: *ack,
            fsync: Arc::default(),
            agreed: Arc::default(),
        }
    }

    pub fn is_cluster(&self) -> bool {
        self.expected == Expected::ClusterNode
    }

    /// What every connection must pass, the first and those after an outage.
    pub async fn inspect(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let info: String = self.ask(host, connection, &redis::cmd("INFO")).await?;
        self.fitness(&info).map_err(|why| unfit(host, &why))?;
        if self.ack == Ack::Fsync && !policy::has_aof(&info) {
            // Also where the loss of jobs is accepted: this level promises more.
            let why = "store.ack = \"fsync\" needs an AOF: set appendonly to yes";
            return Err(unfit(host, why));
        }
        self.is_worth(host, connection, &info).await?;
        match (self.agreed.get(), self.expected) {
            // On a cluster only one node has the layout; there the epochs tell.
            (Some(&buckets), Expected::Standalone) => self.agree(host, connection, buckets).await,
            _ => Ok(()),
        }
    }

    /// Refuses a server that is not fit, by the text of its `INFO`; answers the risks accepted.
    pub fn fitness(&self, info: &str) -> Result<Vec<String>, String> {
        let policy::Findings { mut unfit, risks } = policy::judge(info, self.expected);
        if !self.accept_data_loss {
            let hint = "(or accept the loss of jobs by store.accept_data_loss = true)";
            unfit.extend(risks.iter().map(|risk| format!("{risk} {hint}")));
        }
        if unfit.is_empty() { Ok(risks) } else { Err(unfit.join("; ")) }
    }

    /// At the start: warns of accepted risks, asks for every permission, and whether there is what
    /// confirms writes. Writes nothing. `key` is one of the store's.
    pub async fn probe(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        key: &str,
    ) -> Result<(), OpenError> {
        let info: String = self.ask(host, connection, &redis::cmd("INFO")).await?;
        for risk in self.fitness(&info).map_err(|why| unfit(host, &why))? {
            tracing::warn!(%host, risk, "accepted that jobs may be lost");
        }
        self.may_use_keys(host, connection, key).await?;
        let mut probe = redis::cmd("EVAL");
        let mut forbidden: Vec<String> =
            self.ask(host, connection, probe.arg(PROBE).arg(0).arg(key)).await?;
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg("0".repeat(40)).arg(1).arg(key);
        // Any other answer is fine: no script has this hash.
        if by_hash.exec_async(connection).await.is_err_and(|cause| is_forbidden(&cause)) {
            forbidden.push("+evalsha".to_owned());
        }
        if !forbidden.is_empty() {
            let all = forbidden.join(" ");
            let why = format!("its ACL forbids this user what the queue needs: allow {all}");
            return Err(unfit(host, &why));
        }
        self.is_worth(host, connection, &info).await?;
        if let Some(by) = self.by(&info) {
            let answer: redis::Value =
                self.ask(host, connection, &by.command(START_PATIENCE)).await?;
            if !by.is_confirmed(&answer) {
                let (level, needed) = match by {
                    By::Replica => ("replica", "a connected replica, and none answers"),
                    By::Aof => ("fsync", "an AOF that is synced to disk, and it is not"),
                };
                let why = format!("store.ack = \"{level}\" needs {needed}");
                return Err(unfit(host, &why));
            }
        }
        Ok(())
    }

    /// Tries keys of each kind. Redis asks its ACL before it looks where a key is, so every node of
    /// a cluster can tell.
    async fn may_use_keys(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        key: &str,
    ) -> Result<(), OpenError> {
        let of_all = [keys::layout(&self.prefix), keys::version(&self.prefix)];
        for key in of_all.iter().map(String::as_str).chain([key]) {
            let mut nothing = redis::cmd("EVAL");
            nothing.arg("return 0").arg(1).arg(key);
            match nothing.exec_async(connection).await {
                Err(cause) if is_forbidden(&cause) => return Err(self.engine(host, &cause)),
                _ => {}
            }
        }
        Ok(())
    }

    /// What confirms writes: by the first server's `INFO`, and then for all, so that no answer is
    /// worth less than another.
    fn by(&self, info: &str) -> Option<By> {
        match self.ack {
            Ack::Memory => None,
            Ack::Replica => Some(By::Replica),
            Ack::Fsync => *self
                .fsync
                .get_or_init(|| (policy::version(info) >= Some(WAITAOF_SINCE)).then_some(By::Aof)),
        }
    }

    /// The same, once a server was inspected.
    pub fn chosen(&self) -> Option<By> {
        self.by("")
    }

    /// Whether a server can confirm writes in the way that was chosen.
    async fn is_worth(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        info: &str,
    ) -> Result<(), OpenError> {
        match (self.ack, self.by(info)) {
            (Ack::Memory | Ack::Replica, _) => Ok(()),
            (Ack::Fsync, None) => self.syncs_always(host, connection).await,
            (Ack::Fsync, Some(_)) if policy::version(info) >= Some(WAITAOF_SINCE) => Ok(()),
            (Ack::Fsync, Some(_)) => {
                let why = "store.ack = \"fsync\" needs Redis 7.2, as the other servers are";
                Err(unfit(host, why))
            }
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
        match found.get(1).map(String::as_str) {
            Some("always") => Ok(()),
            other => {
                let found = other.unwrap_or("unknown");
                let why = format!(
                    "store.ack = \"fsync\" needs appendfsync always (it is {found}), or Redis 7.2"
                );
                Err(unfit(host, &why))
            }
        }
    }

    pub async fn ask<T: FromRedisValue>(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        command: &redis::Cmd,
    ) -> Result<T, OpenError> {
        command.query_async(connection).await.map_err(|cause| self.engine(host, &cause))
    }

    /// The address of a server and what it, or the way to it, said.
    pub fn engine(&self, host: &Host, cause: &RedisError) -> OpenError {
        if is_forbidden(cause) {
            let (prefix, said) = (&self.prefix, cause.detail().unwrap_or("no permission"));
            let needs = format!("on the keys ~{prefix}:layout ~{{{prefix}:*");
            let why = format!("its ACL forbids this user what the queue needs {needs}: {said}");
            return unfit(host, &why);
        }
        let hint = match is_unknown(cause) {
            true => " (see store.user and store.password)",
            false => "",
        };
        OpenError::Engine { what: format!("Redis at {host}"), cause: format!("{cause}{hint}") }
    }
}

/// Whether the ACL says no.
fn is_forbidden(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// Whether the server does not know who connects.
pub fn is_unknown(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::AuthenticationFailed || cause.code() == Some("NOAUTH")
}

fn unfit(host: &Host, why: &str) -> OpenError {
    OpenError::Unfit(format!("{host}: {why}"))
}

/// Whether an error says that a server does not do, rather than that it is away.
pub fn is_refusal(error: &OpenError) -> bool {
    !matches!(error, OpenError::Engine { .. })
}

/// Those of `all` that are different.
pub fn distinct<T: std::hash::Hash + Eq + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}
