//! A connection that sends one HTTP/1.1 request at a time, and costs little.

use std::{net::SocketAddr, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for an answer: a minute's pop and some more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The server took longer than [`ANSWER_TIMEOUT`].
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
pub struct NoAnswer;

/// Bytes from a server, read as far as they are needed.
pub struct Wire {
    stream: TcpStream,
    /// What was read since something was last sent.
    pub read: BytesMut,
}

impl Wire {
    /// Connects, within a time.
    pub async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let stream = stream
            .map_err(|_| format!("{address} does not answer"))?
            .map_err(|cause| format!("failed to connect to {address}: {cause}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: BytesMut::with_capacity(16 << 10) })
    }

    /// Sends, and forgets what was read before.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.read.clear();
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Reads some more.
    pub async fn more(&mut self) -> Result<(), Failure> {
        match timeout(ANSWER_TIMEOUT, self.stream.read_buf(&mut self.read)).await {
            Err(_) => Err(NoAnswer.into()),
            Ok(Ok(0)) => Err("the server closed the connection".into()),
            Ok(read) => Ok(read.map(drop)?),
        }
    }
}

/// An HTTP client on one connection.
pub struct Client {
    wire: Wire,
    head: Vec<u8>,
    address: SocketAddr,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self { wire: Wire::connect(address).await?, head: Vec::new(), address })
    }

    /// Connects again.
    pub async fn renew(&mut self) -> Result<(), Failure> {
        self.wire = Wire::connect(self.address).await?;
        Ok(())
    }

    /// Sends a request; answers the body of a 2xx.
    pub async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<&[u8], Failure> {
        use std::io::Write;

        self.head.clear();
        let (address, length) = (self.address, body.len());
        write!(
            self.head,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n"
        )?;
        self.head.extend_from_slice(body);
        self.wire.send(&self.head).await?;
        let (status, length, start) = loop {
            self.wire.more().await?;
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut answer = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(start) = answer.parse(&self.wire.read)? {
                let named =
                    |h: &&httparse::Header<'_>| h.name.eq_ignore_ascii_case("content-length");
                let length = answer.headers.iter().find(named).map(|h| h.value);
                let length = length.map_or(Ok("0"), std::str::from_utf8)?.parse::<usize>()?;
                break (answer.code.unwrap_or_default(), length, start);
            }
        };
        while self.wire.read.len() < start + length {
            self.wire.more().await?;
        }
        let body = &self.wire.read[start..start + length];
        if !(200..300).contains(&status) {
            let body = String::from_utf8_lossy(body);
            return Err(format!("{method} {path} was answered with {status}: {body}").into());
        }
        Ok(body)
    }
}
