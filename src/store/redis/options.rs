//! What a store on Redis is told.

use std::{path::PathBuf, time::Duration};

use super::url::{RedisUrl, Secret};

/// What an answer to a write is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum Ack {
    /// Redis has it in memory; what a crash leaves of it is for its AOF to say.
    #[default]
    Memory,
    /// A replica has it too.
    Replica,
    /// It is on the disk of the master.
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
    /// As settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replica => "replica",
            Self::Fsync => "fsync",
        }
    }
}

/// Who connects.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The ACL user; none is the default user.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
}

/// Files for TLS, PEM each.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Who signed the server's certificate; none asks this machine's trusted authorities.
    pub ca: Option<PathBuf>,
    /// This client's certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where and how to keep jobs on Redis.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// Where.
    pub url: RedisUrl,
    /// Who connects to Redis.
    pub login: Login,
    /// Who connects to its Sentinels.
    pub sentinel_login: Login,
    /// For `rediss…`.
    pub tls: TlsFiles,
    /// What every key begins with.
    pub prefix: String,
    /// What an answer to a write is worth.
    pub ack: Ack,
    /// Start although this Redis may lose jobs (no AOF, eviction).
    pub accept_data_loss: bool,
    /// How long one that is not there, or still loads its data, is waited for at the start.
    pub connect_timeout: Duration,
}

impl RedisOptions {
    /// With nothing but an address; waits for nothing.
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
