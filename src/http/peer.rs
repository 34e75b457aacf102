//! Whether the client of a request is still there.

use std::{io::ErrorKind, mem::MaybeUninit, net::SocketAddr, os::fd::AsFd, sync::Arc};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

/// The client's connection; the server adds it to each request.
#[derive(Clone)]
pub struct Peer {
    socket: Arc<dyn AsFd + Send + Sync>,
    address: Option<SocketAddr>,
    is_encrypted: bool,
}

impl Peer {
    /// The client at the other end of `socket`, and where it is.
    pub fn new(
        socket: Arc<dyn AsFd + Send + Sync>,
        address: Option<SocketAddr>,
        is_encrypted: bool,
    ) -> Self {
        Self { socket, address, is_encrypted }
    }

    /// Where the client is; none on a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
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
