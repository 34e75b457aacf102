//! Dialer: resolves, checks, connects to the checked addresses.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    allowed::Allowed,
    lookups::Lookups,
    proxy::ProxyUrl,
    stream::{Io, Stream},
    tls::Tls,
    url::Target,
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
    pub(crate) lookups: Arc<Lookups>,
    pub(crate) proxy: Option<ProxyUrl>,
    pub(crate) tls: Tls,
    /// For resolution, all tries, the proxy and the TLS handshake together.
    pub(crate) timeout: Duration,
}

impl Dialer {
    /// Connects to a target within the timeout. `own` bounds the look-ups of the caller.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        own: &Arc<Semaphore>,
    ) -> Result<Stream, ConnectError> {
        let host = target.host().to_owned();
        match timeout(self.timeout, self.open_stream(target, own)).await {
            Ok(connected) => connected,
            Err(_) => Err(ConnectError::TimedOut { host, limit: self.timeout }),
        }
    }

    async fn open_stream(
        &self,
        target: &Target,
        own: &Arc<Semaphore>,
    ) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + self.timeout;
        let host = target.host();
        let addresses = self.addresses(host, target.port, own).await?;
        let (mut io, peer) = self.dial(host, addresses, deadline, own).await?;
        if target.is_https {
            io = self.tls.connect(host, io).await.map_err(|source| ConnectError::Tls {
                host: host.to_owned(),
                address: peer,
                source,
            })?;
        }
        Ok(Stream { io, peer, traffic: Arc::default() })
    }

    /// Returns the addresses of a host if all are allowed, in the order of the tries.
    async fn addresses(
        &self,
        host: &str,
        port: u16,
        own: &Arc<Semaphore>,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = self.resolve(host, port, own).await;
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

    async fn resolve(
        &self,
        host: &str,
        port: u16,
        own: &Arc<Semaphore>,
    ) -> io::Result<Vec<SocketAddr>> {
        match host.parse() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, port)]),
            Err(_) => self.lookups.resolve(&(host.to_owned(), port), own).await,
        }
    }

    /// Tries the addresses in turn. Each has an equal share of the time that is left.
    async fn dial(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
        deadline: Instant,
        own: &Arc<Semaphore>,
    ) -> Result<(Box<dyn Io>, SocketAddr), ConnectError> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut last = None;
        let mut left = addresses.len().min(MAX_TRIES) as u32;
        for address in addresses.into_iter().take(MAX_TRIES) {
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            match timeout_at(until, self.open(address, own)).await {
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
    async fn open(&self, address: SocketAddr, own: &Arc<Semaphore>) -> io::Result<TcpStream> {
        let Some(proxy) = &self.proxy else {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            return Ok(tcp);
        };
        let proxies = self.resolve(&proxy.host, proxy.port, own).await?;
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
