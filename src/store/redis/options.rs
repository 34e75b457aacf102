//! Options of a store on Redis.

use std::{path::PathBuf, time::Duration};

use super::url::{RedisUrl, Secret};

/// Durability of a write that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum Ack {
    /// Redis has the write in memory; its AOF settings decide whether the write survives a crash.
    #[default]
    Memory,
    /// A replica has the write, too.
    Replica,
    /// The master has written and synced the write to its disk.
    Fsync,
}

impl TryFrom<String> for Ack {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let known = [Self::Memory, Self::Replica, Self::Fsync];
        known
            .into_iter()
            .find(|ack| ack.name() == text)
            .ok_or_else(|| format!("must be \"memory\", \"replica\" or \"fsync\", got {text:?}"))
    }
}

impl Ack {
    /// Returns the name used in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replica => "replica",
            Self::Fsync => "fsync",
        }
    }
}

/// Credentials for Redis or its Sentinels.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// ACL user; none is the default user.
    pub user: Option<String>,
    /// Password of the user.
    pub password: Option<Secret>,
}

/// PEM files for TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Certificate authority of the server; none uses this machine's trusted authorities.
    pub ca: Option<PathBuf>,
    /// Certificate of this client, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Address of a Redis, and how jobs are kept there.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// Address, from `store.url`.
    pub url: RedisUrl,
    /// Credentials for Redis.
    pub login: Login,
    /// Credentials for its Sentinels.
    pub sentinel_login: Login,
    /// Files for TLS, used with `rediss…`.
    pub tls: TlsFiles,
    /// Beginning of every key.
    pub prefix: String,
    /// Durability of a write that was answered, from `store.ack`.
    pub ack: Ack,
    /// Starts even if this Redis may lose jobs (no AOF, eviction).
    pub accept_data_loss: bool,
    /// Time to wait at the start for a Redis that is unavailable or still loads its data.
    pub connect_timeout: Duration,
}

impl RedisOptions {
    /// Returns options for this address, with the default of every other option and without
    /// waiting.
    pub fn new(url: RedisUrl, prefix: &str) -> Self {
        let login = Login { user: url.user.clone(), password: url.password.clone() };
        Self {
            url,
            login,
            sentinel_login: Login::default(),
            tls: TlsFiles::default(),
            prefix: prefix.to_owned(),
            ack: Ack::Memory,
            accept_data_loss: false,
            connect_timeout: Duration::ZERO,
        }
    }
}
