//! Connector: resolves, checks, connects to the checked addresses.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tower_service::Service;

use crate::{
    allowed::Allowed,
    proxy::ProxyUrl,
    resolve::Resolve,
    stream::{Io, Peer, Stream},
    tls::Tls,
};

mod error;
#[cfg(test)]
mod tests;

pub(crate) use self::error::ConnectError;

/// Most addresses of a name that are tried. All are checked.
const MAX_TRIES: usize = 8;

/// Settings of all connections.
pub(crate) struct Dialer {
    pub(crate) allowed: Allowed,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) proxy: Option<ProxyUrl>,
    pub(crate) tls: Tls,
    /// For resolution, all tries, the proxy and the TLS handshake together.
    pub(crate) timeout: Duration,
}

/// Connector for hyper's client.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) Arc<Dialer>);

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            let is_https = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
            let connecting = dialer.connect(host, port, is_https);
            match timeout(dialer.timeout, connecting).await {
                Ok(connected) => connected.map(TokioIo::new),
                Err(_) => {
                    Err(ConnectError::TimedOut { host: host.to_owned(), limit: dialer.timeout })
                }
            }
        })
    }
}

impl Dialer {
    async fn connect(&self, host: &str, port: u16, is_https: bool) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + self.timeout;
        let addresses = self.addresses(host, port).await?;
        let (io, address) = self.dial(host, addresses, deadline).await?;
        let peer = Peer(address);
        if !is_https {
            return Ok(Stream { io, peer, is_h2: false });
        }
        let secured = self.tls.connect(host, io).await;
        let (io, is_h2) = secured.map_err(|source| ConnectError::Tls {
            host: host.to_owned(),
            address,
            source,
        })?;
        Ok(Stream { io, peer, is_h2 })
    }

    /// Returns the addresses of a host if all are allowed, in the order of the tries.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = self.resolve(host, port).await;
        let found =
            found.map_err(|source| ConnectError::Resolve { host: host.to_owned(), source })?;
        let found: Vec<_> = found.into_iter().map(canonical).collect();
        // One address that is not allowed refuses them all: a name with both kinds is an attack or
        // a mistake.
        for address in &found {
            self.allowed.check_address(host, address.ip())?;
        }
        Ok(alternate(found))
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match host.parse() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, port)]),
            Err(_) => self.resolver.resolve(host, port).await,
        }
    }

    /// Tries the addresses in turn. Each has an equal share of the time that is left.
    async fn dial(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
        deadline: Instant,
    ) -> Result<(Box<dyn Io>, SocketAddr), ConnectError> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut last = None;
        let mut left = addresses.len().min(MAX_TRIES) as u32;
        for address in addresses.into_iter().take(MAX_TRIES) {
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            match timeout_at(until, self.open(address)).await {
                Ok(Ok(io)) => return Ok((Box::new(io), address)),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
            left -= 1;
            last = Some(address);
        }
        let host = host.to_owned();
        Err(match (last, &self.proxy) {
            (None, _) => ConnectError::Resolve { host, source: failure },
            (Some(address), None) => ConnectError::Connect { host, address, source: failure },
            (Some(address), Some(proxy)) => {
                ConnectError::Proxy { host, address, proxy: proxy.to_string(), source: failure }
            }
        })
    }

    /// Connects to a checked address, through the proxy if there is one.
    async fn open(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let Some(proxy) = &self.proxy else {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            return Ok(tcp);
        };
        let proxies = self.resolve(&proxy.host, proxy.port).await?;
        let mut tcp = TcpStream::connect(proxies.as_slice()).await?;
        tcp.set_nodelay(true)?;
        proxy.open(&mut tcp, address).await?;
        Ok(tcp)
    }
}

/// Replaces an IPv4-mapped address by its IPv4 address: the one that is checked is the one
/// connected to.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Alternates between the families, starting with that of the first address.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let count = addresses.len();
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == is_v4);
    let (mut next, mut other) = (first.into_iter(), second.into_iter());
    let mut alternated = Vec::with_capacity(count);
    while let Some(address) = next.next() {
        alternated.push(address);
        if other.len() > 0 {
            std::mem::swap(&mut next, &mut other);
        }
    }
    alternated
}
