//! The socket of one client.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    task::{Context, Poll},
};

use tokio::{
    io::{Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A TCP connection, or one of a Unix socket.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! on {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// Returns the address of the client; one of a Unix socket has none.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Disables Nagle's algorithm, so that answers are sent at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, stream => stream.poll_read_ready(context))
    }

    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, stream => stream.poll_write_ready(context))
    }

    /// Peeks at the first byte that the client sends; returns `None` at the end of the stream.
    pub async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        match self {
            Self::Tcp(stream) => Ok((stream.peek(&mut first).await? > 0).then_some(first[0])),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub async fn readable(&self) -> io::Result<()> {
        on!(self, stream => stream.readable().await)
    }

    pub fn try_read_buf(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        on!(self, stream => stream.try_read_buf(buffer))
    }

    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        on!(self, stream => stream.try_write(bytes))
    }

    pub fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        on!(self, stream => stream.try_write_vectored(slices))
    }

    /// Reads by another method; a `WouldBlock` error clears the readiness of the runtime.
    pub fn try_reading<R>(&self, read: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        on!(self, stream => stream.try_io(Interest::READABLE, read))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        on!(self, stream => stream.as_fd())
    }
}
