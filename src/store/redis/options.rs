//! What a store on Redis is told.

use redis::TlsCertificates;

use super::{
    dial::{Dialer, Login, TlsFiles},
    url::RedisUrl,
};
use crate::store::OpenError;

/// What an answer to a write is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(try_from = "String")]
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
}

impl RedisOptions {
    /// With nothing but an address.
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
        }
    }

    pub(super) fn dialer(&self) -> Result<Dialer, OpenError> {
        Ok(Dialer::new(&self.login, self.url.db, self.certificates()?))
    }

    pub(super) fn sentinel_dialer(&self) -> Result<Dialer, OpenError> {
        Ok(Dialer::new(&self.sentinel_login, 0, self.certificates()?))
    }

    fn certificates(&self) -> Result<Option<TlsCertificates>, OpenError> {
        self.url.tls.then(|| self.tls.read()).transpose()
    }
}
