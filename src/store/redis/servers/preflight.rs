//! What must hold of a server before it is used: it is fit, may do what we need, and can give what
//! `store.ack` promises.

use std::{
    collections::HashSet,
    error::Error,
    io,
    sync::{Arc, OnceLock},
};

use redis::{
    ErrorKind, FromRedisValue, Pipeline, RedisError, ServerErrorKind, aio::MultiplexedConnection,
};

use super::{
    confirm::Confirmation,
    requirements::{self, Expected},
};
use crate::{
    job::Buckets,
    store::{
        OpenError,
        redis::{
            Ack, Host, Kind, RedisOptions,
            keys::{self, Keys},
        },
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
pub struct Preflight {
    pub prefix: String,
    accept_data_loss: bool,
    expected: Expected,
    /// Others tell who is a master: Sentinels, or the nodes of a cluster.
    are_masters_found: bool,
    ack: Ack,
    /// What confirms that a write is on disk, once the first server was seen.
    fsync: Arc<OnceLock<Option<Confirmation>>>,
    /// What was agreed on when the store was opened.
    pub agreed: Arc<OnceLock<Buckets>>,
    /// A key of each bucket, once they are known: every connection from then on is asked for its rights.
    used: Arc<OnceLock<Vec<String>>>,
}

impl Preflight {
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
            are_masters_found: options.url.kind != Kind::Single,
            ack: *ack,
            fsync: Arc::default(),
            agreed: Arc::default(),
            used: Arc::default(),
        }
    }

    /// Says which keys the store has.
    pub fn will_use(&self, keys: &[Keys]) {
        self.used.get_or_init(|| keys.iter().map(|keys| keys.incarnation.clone()).collect());
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
        self.is_settled(host, &info)?;
        self.fitness(&info).map_err(|why| unfit(host, &why))?;
        if self.ack == Ack::Fsync && !requirements::has_aof(&info) {
            // Also where the loss of jobs is accepted: this level promises more.
            let why = "store.ack = \"fsync\" needs an AOF: set appendonly to yes";
            return Err(unfit(host, why));
        }
        self.is_worth(host, connection, &info).await?;
        self.has_rights(host, connection).await?;
        match (self.agreed.get(), self.expected) {
            // On a cluster only one node has the layout; there the incarnations tell.
            (Some(&buckets), Expected::Standalone) => self.agree(host, connection, buckets).await,
            _ => Ok(()),
        }
    }

    /// Refuses for now, without a judgement, what is still loading; and what Sentinels, or the other
    /// nodes, call a master and does not know it yet.
    fn is_settled(&self, host: &Host, info: &str) -> Result<(), OpenError> {
        let cause = if requirements::is_loading(info) {
            "it is loading its data"
        } else if self.are_masters_found && !requirements::is_master(info) {
            "it is named as the master, and is no master yet"
        } else {
            return Ok(());
        };
        Err(OpenError::Away { what: redis_at(host), cause: cause.to_owned() })
    }

    /// Refuses a server that is not fit, by the text of its `INFO`; answers the risks accepted.
    pub fn fitness(&self, info: &str) -> Result<Vec<String>, String> {
        let requirements::Findings { mut unfit, risks } = requirements::judge(info, self.expected);
        if !self.accept_data_loss {
            let hint = "(or accept the loss of jobs by store.accept_data_loss = true)";
            unfit.extend(risks.iter().map(|risk| format!("{risk} {hint}")));
        }
        if unfit.is_empty() { Ok(risks) } else { Err(unfit.join("; ")) }
    }

    /// At the start: warns of accepted risks, and asks for every permission, whether scripts may
    /// name keys, and whether there is what confirms writes. Writes nothing. `key` is one of the
    /// store's, on this server if it has any.
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
        self.has_rights(host, connection).await?;
        self.takes_undeclared_keys(host, connection, key).await?;
        self.is_worth(host, connection, &info).await?;
        if let Some(by) = self.by(&info) {
            let answer: redis::Value =
                self.ask(host, connection, &by.command(START_PATIENCE)).await?;
            if !by.is_confirmed(&answer) {
                return Err(not_confirmed(by, host));
            }
        }
        Ok(())
    }

    /// Refuses where the ACL forbids a key or a command that the store needs: a script that met that
    /// would stop in its middle. Rights may change at any time, so every new connection is asked.
    async fn has_rights(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let Some(used) = self.used.get() else { return Ok(()) };
        // Redis asks its ACL before it looks where a key is, so every node of a cluster can tell.
        let of_all = [keys::layout(&self.prefix), keys::version(&self.prefix)];
        let mut all = Pipeline::new();
        for key in of_all.iter().chain(used) {
            all.cmd("EVAL").arg("return 0").arg(1).arg(key);
        }
        let tried = connection.send_packed_commands(&all, 0, all.len()).await;
        for answer in tried.map_err(|cause| self.engine(host, &cause))? {
            match answer.extract_error() {
                Err(cause) if is_forbidden(&cause) => return Err(self.engine(host, &cause)),
                _ => {}
            }
        }
        let key = &used[0];
        let mut probe = redis::cmd("EVAL");
        let mut forbidden: Vec<String> =
            self.ask(host, connection, probe.arg(PROBE).arg(0).arg(key)).await?;
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg("0".repeat(40)).arg(1).arg(key);
        // Any other answer is fine: no script has this hash.
        if by_hash.exec_async(connection).await.is_err_and(|cause| is_forbidden(&cause)) {
            forbidden.push("+evalsha".to_owned());
        }
        if forbidden.is_empty() {
            return Ok(());
        }
        let all = forbidden.join(" ");
        let why = format!("its ACL forbids this user what the queue needs: allow {all}");
        Err(unfit(host, &why))
    }

    /// Scripts name the sets of topics from the bucket's tag, which a server that wants every key
    /// declared refuses: it is found out by a script that reads, with its key declared and not.
    async fn takes_undeclared_keys(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        key: &str,
    ) -> Result<(), OpenError> {
        const READ: &str = "return redis.call('EXISTS', KEYS[2] or ARGV[1])";
        let (mut declared, mut undeclared) = (redis::cmd("EVAL"), redis::cmd("EVAL"));
        declared.arg(READ).arg(2).arg(key).arg(key);
        // Another key of the same slot.
        undeclared.arg(READ).arg(1).arg(key).arg(format!("{key}:other"));
        let is_fine = declared.exec_async(connection).await.is_ok();
        match undeclared.exec_async(connection).await {
            Err(cause) if is_fine && !may_pass(&cause) => {
                let why = "it wants every key of a script declared, and those of the queue name \
                           some from others: use a server that leaves that to them, as Redis does";
                Err(unfit(host, &format!("{why} ({cause})")))
            }
            _ => Ok(()),
        }
    }

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
            (Ack::Fsync, Some(_)) if requirements::version(info) >= Some(WAITAOF_SINCE) => Ok(()),
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
            true => " (see store.username and store.password)",
            false => "",
        };
        let (what, said) = (redis_at(host), format!("{cause}{hint}"));
        match may_pass(cause) {
            true => OpenError::Away { what, cause: said },
            false => OpenError::Engine { what, cause: said },
        }
    }
}

fn redis_at(host: &Host) -> String {
    format!("Redis at {host}")
}

/// Whether an error is one of a server that is not there, or not ready: it may be in a moment.
pub fn may_pass(cause: &RedisError) -> bool {
    match cause.kind() {
        // A name that is not known yet is such an error too; a certificate that is not trusted is not.
        ErrorKind::Io => !is_of_tls(cause),
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::TryAgain
        ),
        _ => false,
    }
}

/// Whether the two ends do not agree on TLS.
fn is_of_tls(cause: &RedisError) -> bool {
    let io =
        cause.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let io = io.and_then(|error| error.downcast_ref::<io::Error>());
    io.and_then(io::Error::get_ref).is_some_and(|error| error.is::<rustls::Error>())
}

/// Whether the ACL says no.
fn is_forbidden(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// Whether the server does not know who connects.
pub fn is_unknown(cause: &RedisError) -> bool {
    cause.kind() == ErrorKind::AuthenticationFailed || cause.code() == Some("NOAUTH")
}

/// Why a server does not do that does not confirm a write. A replica may come yet.
fn not_confirmed(by: Confirmation, host: &Host) -> OpenError {
    match by {
        Confirmation::Replica => {
            let cause = "store.ack = \"replica\" needs a connected replica, and none answers";
            OpenError::Away { what: redis_at(host), cause: cause.to_owned() }
        }
        Confirmation::Aof => {
            let why = "store.ack = \"fsync\" needs an AOF that is synced to disk, and it is not";
            unfit(host, why)
        }
    }
}

fn unfit(host: &Host, why: &str) -> OpenError {
    OpenError::Unfit(format!("{host}: {why}"))
}

/// Whether an error says that a server does not do, rather than that it is away.
pub fn is_refusal(error: &OpenError) -> bool {
    !matches!(error, OpenError::Away { .. } | OpenError::Engine { .. })
}

/// Those of `all` that are different.
pub fn distinct<T: std::hash::Hash + Eq + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}
