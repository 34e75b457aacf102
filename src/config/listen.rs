//! Listen addresses: a host, by name or address, with a port; or a Unix socket.

use std::{
    fmt,
    io::{Error, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

/// A listen address, such as `127.0.0.1:9277`, `[::1]:9277`, `localhost:9277` or
/// `unix:/run/delay-queue.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    /// A port of a host.
    Tcp {
        /// An address, in brackets for IPv6, or a name.
        host: String,
        /// 0 means any free port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Resolves the host to all its addresses, which may take a while.
    ///
    /// # Errors
    /// The name cannot be resolved, or this is a Unix socket.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in self.to_string().to_socket_addrs()? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.is_empty() {
            true => Err(Error::new(ErrorKind::NotFound, "this name has no address")),
            false => Ok(addresses),
        }
    }

    /// Returns the address for local clients: loopback if the server listens on all addresses.
    #[must_use]
    pub fn for_local_clients(&self) -> Self {
        let Self::Tcp { host, port } = self else { return self.clone() };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = match bare.parse() {
            Ok(IpAddr::V4(ip)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(ip)) if ip.is_unspecified() => format!("[{}]", Ipv6Addr::LOCALHOST),
            _ => host.clone(),
        };
        Self::Tcp { host, port: *port }
    }

    /// Returns the URL for clients on this machine; `None` for a Unix socket.
    #[must_use]
    pub fn url(&self, is_tls: bool) -> Option<String> {
        let scheme = if is_tls { "https" } else { "http" };
        match self.for_local_clients() {
            Self::Unix(_) => None,
            address => Some(format!("{scheme}://{address}")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let refused = || {
            format!(
                "must be a host and a port, such as \"127.0.0.1:9277\" or \"localhost:9277\", or \
                 \"unix:\" with a path, got {text:?}"
            )
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() || path.contains('\0') {
                true => Err(refused()),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let is_address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(ip) => ip.parse::<Ipv6Addr>().is_ok(),
            None => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
                !host.is_empty() && host.bytes().all(plain)
            }
        };
        let port = port.parse().map_err(|_| refused())?;
        match is_address {
            true => Ok(Self::Tcp { host: host.to_owned(), port }),
            false => Err(refused()),
        }
    }
}

/// Permissions of a Unix socket: the mode of its file as for chmod, with a leading zero (`"0660"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SocketMode(u32);

impl SocketMode {
    /// Returns the permission bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl From<SocketMode> for String {
    fn from(mode: SocketMode) -> Self {
        format!("0{:03o}", mode.0)
    }
}

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bits = match text.strip_prefix('0').filter(|digits| digits.len() == 3) {
            Some(digits) => u32::from_str_radix(digits, 8).ok(),
            None => None,
        };
        bits.map(Self).ok_or_else(|| {
            format!("must be a mode in octal with a leading zero, such as \"0660\", got {text:?}")
        })
    }
}

#[cfg(test)]
mod tests;
