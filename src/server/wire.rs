//! The bytes of a connection on the network, encrypted if it has TLS.

use std::{
    future::Future,
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::socket::Socket;

/// A byte stream that carries HTTP.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<W: AsyncRead + AsyncWrite + Unpin + Send> Transport for W {}

/// A socket whose writes fail when the client stops reading.
pub struct Wire {
    socket: Arc<Socket>,
    /// Maximum time in which a client reads nothing of an answer.
    write_timeout: Duration,
    /// Timer of `write_timeout`; `None` while the client reads.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub fn new(socket: Arc<Socket>, write_timeout: Duration) -> Self {
        Self { socket, write_timeout, stalled: None }
    }

    /// Calls `write` until it succeeds or the socket is not writable. One call is not enough,
    /// because the runtime may have recorded an outdated readiness.
    fn write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.stall(context),
            }
            match write(&self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => {
                    self.stalled = None;
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// Starts or checks the deadline for a client that reads nothing.
    fn stall(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let timeout = self.write_timeout;
        let deadline = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(context));
        tracing::debug!("a client does not read its answer (limits.write_timeout)");
        // Discards the bytes that the kernel still holds for this client.
        socket2::SockRef::from(&*self.socket).set_linger(Some(Duration::ZERO))?;
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            match self.socket.try_read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(context, |socket| socket.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(context, |socket| socket.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side; the socket stays open.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Write))
    }
}
