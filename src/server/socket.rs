//! The socket of one client.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    task::{Context, Poll},
};

use tokio::{
    io::{Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connection over TCP or a Unix socket.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls a method that both kinds of streams have.
macro_rules! on {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// Returns the address of the client; `None` on a Unix socket.
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
            Self::Unix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    pub async fn readable(&self) -> io::Result<()> {
        on!(self, stream => stream.readable().await)
    }

    /// Reads the bytes that have arrived; none at the end of the stream.
    ///
    /// A read that returns fewer bytes than requested has emptied the socket, so it also clears the
    /// readiness that the runtime has recorded. This saves a system call: the next read would
    /// usually find no bytes.
    pub fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let mut count = 0;
        let tried = self.try_reading(|| {
            count = on!(self, stream => stream.try_read_buf(buffer))?;
            match count > 0 && buffer.remaining() > 0 {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Ok(()),
            }
        });
        if count > 0 { Ok(()) } else { tried }
    }

    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        on!(self, stream => stream.try_write(bytes))
    }

    pub fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        on!(self, stream => stream.try_write_vectored(slices))
    }

    /// Calls `read` if the socket is readable. If `read` fails with `WouldBlock`, the socket counts
    /// as not readable until more bytes arrive.
    pub fn try_reading<R>(&self, read: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        on!(self, stream => stream.try_io(Interest::READABLE, read))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        on!(self, stream => stream.as_fd())
    }
}
