//! A TCP connection as hyper reads and writes it.

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
    net::TcpStream,
    time::{Sleep, sleep},
};

use super::link::Link;

/// The reading and writing end. It shares the socket, and leaves it open: how a connection is
/// closed depends on how it ended.
pub struct Stream {
    link: Arc<Link>,
    /// How long a client may leave an answer unread.
    write_timeout: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    pub fn new(link: Arc<Link>, write_timeout: Duration) -> Self {
        Self { link, write_timeout, stalled: None }
    }

    /// Tries until the socket is ready for `act`, as its readiness may be out of date.
    fn write_with(
        &mut self,
        context: &mut Context<'_>,
        act: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.link.stream.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.stall(context),
            }
            match act(&self.link.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => {
                    self.stalled = None;
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// The client takes nothing for now: it has until the deadline to take something.
    fn stall(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let timeout = self.write_timeout;
        let deadline = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(context));
        tracing::debug!("a client does not read its answer (server.write_timeout)");
        // What the kernel still holds for this client goes with the connection.
        socket2::SockRef::from(&*self.link.stream).set_linger(Some(Duration::ZERO))?;
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.link.stream.poll_read_ready(context))?;
            match self.link.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(read) => {
                    if read > 0 {
                        self.link.has_read();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.link.may_write(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.write_with(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.link.may_write(slices.first().map_or(&[], |slice| slice)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        self.write_with(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called when everything was written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
