//! Tunnels through a proxy.

use std::{fmt, io, net::SocketAddr};

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Url;

use crate::url::UrlError;

#[cfg(test)]
mod tests;

/// Greatest length of the head of a proxy's answer.
const MAX_HEAD: usize = 8192;

/// Proxy for all connections, `http://[user:password@]host:port`. Its own address is not checked.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// User and password in base64.
    credentials: Option<String>,
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyUrl({self})")
    }
}

/// Without user and password.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "http://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "http://{}:{}", self.host, self.port)
        }
    }
}

impl ProxyUrl {
    /// Parses the URL of a proxy. User and password are percent-decoded.
    ///
    /// # Errors
    ///
    /// Fails for other schemes than http, without a host, and with a path, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if let Some(found) =
            text.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\')
        {
            return Err(UrlError::Character(found));
        }
        let url = Url::parse(text).map_err(UrlError::Invalid)?;
        if url.scheme() != "http"
            || url.path() != "/"
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(UrlError::Proxy);
        }
        let host = url.host_str().ok_or(UrlError::NoHost)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(UrlError::Port)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let credentials = has_user.then(|| {
            let mut bytes: Vec<u8> = percent_decode_str(url.username()).collect();
            bytes.push(b':');
            bytes.extend(percent_decode_str(url.password().unwrap_or_default()));
            BASE64_STANDARD.encode(bytes)
        });
        Ok(Self { host, port, credentials })
    }

    /// Opens a tunnel to an address. The name of the target stays unknown to the proxy, which could
    /// resolve it anew.
    pub(crate) async fn open<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: &mut T,
        to: SocketAddr,
    ) -> io::Result<()> {
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(credentials) = &self.credentials {
            request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
        }
        request.push_str("\r\n");
        io.write_all(request.as_bytes()).await?;
        io.flush().await?;

        let mut head = Vec::with_capacity(512);
        let end = loop {
            if let Some(at) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if head.len() >= MAX_HEAD {
                return Err(io::Error::other("its answer to CONNECT is too long"));
            }
            if (&mut *io).take((MAX_HEAD - head.len()) as u64).read_buf(&mut head).await? == 0 {
                return Err(io::Error::other(
                    "it closed the connection before it answered CONNECT",
                ));
            }
        };
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        match (status(line), head.len() == end) {
            (Some(200..=299), true) => Ok(()),
            (Some(200..=299), false) => {
                Err(io::Error::other("it sent bytes before the tunnel was used"))
            }
            (Some(status), _) => {
                Err(io::Error::other(format!("it answered CONNECT with {status}")))
            }
            (None, _) => {
                Err(io::Error::other("it answered CONNECT with something other than HTTP/1"))
            }
        }
    }
}

/// Returns the status of a status line of HTTP/1.
fn status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.0 ").or_else(|| line.strip_prefix(b"HTTP/1.1 "))?;
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    if rest.get(3).is_some_and(|byte| *byte != b' ') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
