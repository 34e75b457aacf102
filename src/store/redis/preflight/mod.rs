//! Checks of a server before its use: it is fit, the user has all permissions, it can keep the
//! promise of `store.ack`, and it has the store that was opened.

pub mod incarnation;
pub mod requirements;

mod confirmation;
mod layout;
mod permissions;
mod reservations;

use std::sync::{Arc, OnceLock, RwLock};

use redis::{FromRedisValue, RedisError, aio::MultiplexedConnection};

use self::requirements::Expected;
use super::{
    Ack, Host, Kind, RedisOptions,
    keys::Keys,
    transport::{
        Confirmation,
        error::{is_forbidden, is_unknown, may_pass},
    },
};
use crate::{
    job::{Buckets, ReservationKey},
    store::OpenError,
    tls_error,
};

pub use self::layout::default_buckets;

/// Checks of every new connection.
#[derive(Clone)]
pub struct Preflight {
    prefix: String,
    accept_data_loss: bool,
    expected: Expected,
    /// Whether Sentinels or the nodes of a cluster name the masters.
    are_masters_found: bool,
    ack: Ack,
    /// Confirmation that a write is on disk, chosen by the first server.
    fsync: Arc<OnceLock<Option<Confirmation>>>,
    /// Number of buckets agreed on when the store was opened.
    agreed: Arc<OnceLock<Buckets>>,
    /// Key of reservations: generated here, until the store turns out to have another one.
    reservation_key: Arc<RwLock<Arc<ReservationKey>>>,
    /// A key of each bucket, once known: from then on, connections must have permission for them.
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
            reservation_key: Arc::new(RwLock::new(Arc::new(ReservationKey::generate()))),
            used: Arc::default(),
        }
    }

    /// Sets the keys of the store.
    pub fn will_use(&self, keys: &[Keys]) {
        self.used.get_or_init(|| keys.iter().map(|keys| keys.incarnation.clone()).collect());
    }

    /// Returns whether all keys of the store share one slot: a standalone server has no slots.
    pub fn has_one_slot(&self) -> bool {
        self.expected == Expected::Standalone
    }

    /// Checks every connection, the first one and those after an outage.
    pub async fn inspect(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let info: String = self.ask(host, connection, &redis::cmd("INFO")).await?;
        self.check_settled(host, &info)?;
        self.fitness(&info).map_err(|why| unfit(host, &why))?;
        if self.ack == Ack::Fsync && !requirements::has_aof(&info) {
            // Even if the loss of jobs is accepted: this level of `store.ack` promises more.
            return Err(unfit(host, requirements::NO_AOF));
        }
        self.can_confirm(host, connection, &info).await?;
        self.check_permissions(host, connection).await?;
        match (self.agreed.get(), self.expected) {
            // On a cluster only one node has the layout; there, incarnations are compared instead.
            (Some(&buckets), Expected::Standalone) => self.agree(host, connection, buckets).await,
            _ => Ok(()),
        }
    }

    /// Fails for now if the server is still loading its data, or is named as the master by
    /// Sentinels or other nodes but does not know it yet.
    fn check_settled(&self, host: &Host, info: &str) -> Result<(), OpenError> {
        let cause = if requirements::is_loading(info) {
            "it is loading its data"
        } else if self.are_masters_found && !requirements::is_master(info) {
            "other servers name it as the master, but its role is not master yet"
        } else {
            return Ok(());
        };
        Err(OpenError::Unavailable { what: redis_at(host), cause: cause.to_owned() })
    }

    /// Fails if the server is unfit by its `INFO`; returns the accepted risks.
    pub fn fitness(&self, info: &str) -> Result<Vec<String>, String> {
        let requirements::Findings { mut unfit, risks } = requirements::judge(info, self.expected);
        if !self.accept_data_loss {
            let hint = "(or accept the loss of jobs with store.accept_data_loss = true)";
            unfit.extend(risks.iter().map(|risk| format!("{risk} {hint}")));
        }
        if unfit.is_empty() { Ok(risks) } else { Err(unfit.join("; ")) }
    }

    /// Checks a server at the start: warns of accepted risks, and checks all permissions,
    /// undeclared keys of scripts, and the confirmation of writes. Writes nothing. `key` belongs to
    /// the store, and to this server if it has any bucket.
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
        self.check_permissions(host, connection).await?;
        self.takes_undeclared_keys(host, connection, key).await?;
        self.can_confirm(host, connection, &info).await?;
        self.confirms(host, connection, &info).await
    }

    pub async fn ask<T: FromRedisValue>(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        command: &redis::Cmd,
    ) -> Result<T, OpenError> {
        command.query_async(connection).await.map_err(|cause| self.engine(host, &cause))
    }

    /// Returns the error for a failed connection or command, with the server's address.
    pub fn engine(&self, host: &Host, cause: &RedisError) -> OpenError {
        if is_forbidden(cause) {
            let (prefix, said) = (&self.prefix, cause.detail().unwrap_or("no permission"));
            let needs = format!("on the keys ~{prefix}:layout ~{{{prefix}:*");
            let why = format!(
                "its ACL denies this user permissions that the queue needs {needs}: {said}"
            );
            return unfit(host, &why);
        }
        let hint = match is_unknown(cause) {
            true => " (see store.username and store.password)",
            false => "",
        };
        let said = match tls_error::find(cause) {
            Some(tls) => tls_error::explain(tls, "store.ca_file"),
            None => format!("{cause}{hint}"),
        };
        let what = redis_at(host);
        match may_pass(cause) {
            true => OpenError::Unavailable { what, cause: said },
            false => OpenError::Engine { what, cause: said },
        }
    }
}

fn redis_at(host: &Host) -> String {
    format!("Redis at {host}")
}

fn unfit(host: &Host, why: &str) -> OpenError {
    OpenError::Unfit(format!("{host}: {why}"))
}
