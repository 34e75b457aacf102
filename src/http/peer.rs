//! Whether the client of a request is still there.

use std::{io::ErrorKind, mem::MaybeUninit, net::SocketAddr, sync::Arc};

use socket2::SockRef;
use tokio::net::TcpStream;

/// The client's connection; the server adds it to each request.
#[derive(Clone)]
pub struct Peer(Arc<TcpStream>);

impl Peer {
    /// The client at the other end of `stream`.
    pub fn new(stream: Arc<TcpStream>) -> Self {
        Self(stream)
    }

    /// Where the client is.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    /// Asks the socket itself: that the client has hung up may be known there long before the
    /// runtime comes round to reading it.
    pub fn is_gone(&self) -> bool {
        match SockRef::from(&*self.0).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
