//! The client of a request: where it is, and whether it is still there.

use std::{
    fmt,
    io::ErrorKind,
    mem::MaybeUninit,
    net::{IpAddr, Shutdown, SocketAddr},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

/// The client's connection; the server adds it to each request.
#[derive(Clone)]
pub struct Peer {
    socket: Arc<dyn AsFd + Send + Sync>,
    address: Option<ClientAddress>,
    is_encrypted: bool,
    /// The client, or the first proxy, speaks HTTPS.
    is_https: bool,
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// At the other end of the connection.
    Direct(SocketAddr),
    /// Behind trusted proxies.
    Forwarded(IpAddr),
}

impl ClientAddress {
    pub fn ip(self) -> IpAddr {
        match self {
            Self::Direct(address) => address.ip(),
            Self::Forwarded(address) => address,
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(address) => address.fmt(f),
            Self::Forwarded(address) => address.fmt(f),
        }
    }
}

impl Peer {
    /// The client at the other end of `socket`, and where it is.
    pub fn new(
        socket: Arc<dyn AsFd + Send + Sync>,
        address: Option<SocketAddr>,
        is_encrypted: bool,
    ) -> Self {
        let address = address.map(ClientAddress::Direct);
        Self { socket, address, is_encrypted, is_https: is_encrypted }
    }

    /// The same connection, by which a proxy passes the requests of a client on.
    pub fn behind(&self, client: IpAddr, is_https: Option<bool>) -> Self {
        let is_https = is_https.unwrap_or(self.is_https);
        Self { address: Some(ClientAddress::Forwarded(client)), is_https, ..self.clone() }
    }

    /// The scheme by which the client calls.
    pub fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Where the client is; none on a Unix socket.
    pub fn address(&self) -> Option<ClientAddress> {
        self.address
    }

    /// Closes the connection at once; what the system still has for the client goes with it.
    pub fn cut(&self) {
        let socket = &*self.socket;
        let socket = SockRef::from(&socket);
        // It may be closed already.
        let _ = socket.set_linger(Some(Duration::ZERO));
        let _ = socket.shutdown(Shutdown::Both);
    }

    /// Asks the socket itself: that the client has hung up may be known there long before the
    /// runtime comes round to reading it.
    pub fn is_gone(&self) -> bool {
        if self.is_encrypted {
            // The end of TLS lies in the socket before the end of the connection.
            return self.has_ended();
        }
        match SockRef::from(&&*self.socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Whether the client has closed its side, whatever is still to be read.
    fn has_ended(&self) -> bool {
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut asked = [PollFd::from_borrowed_fd(self.socket.as_fd(), ended)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().intersects(ended)
    }
}
