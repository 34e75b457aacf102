//! Reasons why a connection fails.

use std::{io, net::SocketAddr, time::Duration};

use crate::allowed::Refused;

/// Reason why there is no connection. The endpoint has seen no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("could not resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("could not connect to {host} at {address}: {source}")]
    Connect { host: String, address: SocketAddr, source: io::Error },
    #[error("could not connect to {host} at {address} through the proxy {proxy}: {source}")]
    Proxy { host: String, address: SocketAddr, proxy: String, source: io::Error },
    #[error("TLS with {host} at {address} failed: {source}")]
    Tls { host: String, address: SocketAddr, source: io::Error },
    #[error("could not connect to {host} within {limit:?}")]
    TimedOut { host: String, limit: Duration },
}
