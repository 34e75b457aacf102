//! The connection of a request: the client's address, and whether the client is still connected.

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

/// The client's connection, which the server adds to the extensions of each request.
#[derive(Clone)]
pub struct Peer {
    socket: Arc<dyn AsFd + Send + Sync>,
    address: Option<ClientAddress>,
    is_encrypted: bool,
    /// Whether the client, or the first proxy, speaks HTTPS.
    is_https: bool,
}

/// Address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// The address of the other end of the connection.
    Direct(SocketAddr),
    /// The client's address according to trusted proxies.
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
    /// Describes the client at the other end of `socket`. Its `address` is `None` on a Unix socket.
    pub fn new(
        socket: Arc<dyn AsFd + Send + Sync>,
        address: Option<SocketAddr>,
        is_encrypted: bool,
    ) -> Self {
        let address = address.map(ClientAddress::Direct);
        Self { socket, address, is_encrypted, is_https: is_encrypted }
    }

    /// Returns this connection with the address of the client behind a proxy. `is_https` is `None`
    /// if the proxy does not name the scheme of its client.
    pub fn behind(&self, client: IpAddr, is_https: Option<bool>) -> Self {
        let is_https = is_https.unwrap_or(self.is_https);
        Self { address: Some(ClientAddress::Forwarded(client)), is_https, ..self.clone() }
    }

    /// Returns the scheme that the client uses, `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Returns the address of the client; `None` on a Unix socket.
    pub fn address(&self) -> Option<ClientAddress> {
        self.address
    }

    /// Closes the connection at once and discards data that the system has not sent yet.
    pub fn cut(&self) {
        let socket = &*self.socket;
        let socket = SockRef::from(&socket);
        // Both calls fail if the connection is closed already.
        let _ = socket.set_linger(Some(Duration::ZERO));
        let _ = socket.shutdown(Shutdown::Both);
    }

    /// Returns whether the client has closed the connection. The socket knows it at once, the
    /// runtime only when it reads.
    pub fn is_gone(&self) -> bool {
        if self.is_encrypted {
            // The encrypted notification of the close is unread data: a peek sees no end.
            return self.has_ended();
        }
        match SockRef::from(&&*self.socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Returns whether the client has closed its side, even if data is still unread.
    fn has_ended(&self) -> bool {
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), ended)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&no_wait)).is_ok() && polled[0].revents().intersects(ended)
    }
}
