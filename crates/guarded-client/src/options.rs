//! Settings of clients and bounds of requests.

use std::time::Duration;

use crate::{allowed::Allowed, proxy::ProxyUrl};

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Networks and hosts that requests may reach. By default, all public addresses.
    pub allowed: Allowed,
    /// Certificates in PEM that are trusted in addition to the platform's.
    pub roots: Option<Vec<u8>>,
    /// Proxy for all connections. The environment sets none.
    pub proxy: Option<ProxyUrl>,
    /// Time for a connection: resolution, all tries, the proxy and TLS together. By default 5
    /// seconds, at most a day.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allowed: Allowed::default(),
            roots: None,
            proxy: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Bounds of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for the whole exchange, from resolution to the last byte of the answer.
    pub timeout: Duration,
    /// Greatest body of an answer.
    pub answer_bytes: usize,
}

/// Reason why a client cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The additional certificates are unreadable.
    #[error("cannot read the additional root certificates: {0}")]
    Roots(String),
    /// TLS cannot be configured.
    #[error("cannot configure TLS: {0}")]
    Tls(String),
}
