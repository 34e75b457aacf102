//! A connection that sends one HTTP/1.1 request at a time, and costs little.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::Failure;
use crate::cli::remote::Remote;

fn explained(cause: io::Error) -> io::Error {
    io::Error::new(cause.kind(), Remote::explained(&cause))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for an answer: a minute's pop and some more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The server took longer than [`ANSWER_TIMEOUT`].
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
pub struct NoAnswer;

/// Where connections go.
#[derive(Clone)]
pub struct Destination {
    address: SocketAddr,
    /// The lines that each HTTP request has.
    headers: Rc<str>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Destination {
    /// A server of HTTP or HTTPS, at one of its addresses.
    pub fn new(remote: &Remote, address: SocketAddr) -> Self {
        let headers = format!("Host: {}\r\n{}", remote.server, remote.authorization());
        let tls = remote.tls.as_ref();
        let tls = tls.map(|(config, name)| (TlsConnector::from(config.clone()), name.clone()));
        Self { address, headers: headers.into(), tls }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some((tls, name)) => {
                Box::new(tls.connect(name.clone(), stream).await.map_err(explained)?)
            }
        })
    }
}

impl From<SocketAddr> for Destination {
    /// Something that speaks another protocol.
    fn from(address: SocketAddr) -> Self {
        Self { address, headers: "".into(), tls: None }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Bytes from a server, read as far as they are needed.
pub struct Wire {
    stream: Box<dyn Stream>,
    /// What was read since something was last sent.
    pub read: BytesMut,
}

impl Wire {
    /// Connects, within a time.
    pub async fn connect(to: &Destination) -> Result<Self, Failure> {
        let address = to.address;
        let stream = timeout(CONNECT_TIMEOUT, to.connect()).await;
        let stream = stream
            .map_err(|_| format!("{address} does not answer"))?
            .map_err(|cause| format!("failed to connect to {address}: {cause}"))?;
        Ok(Self { stream, read: BytesMut::with_capacity(16 << 10) })
    }

    /// Sends, and forgets what was read before.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.read.clear();
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
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
    to: Destination,
}

impl Client {
    pub async fn connect(to: &Destination) -> Result<Self, Failure> {
        Ok(Self { wire: Wire::connect(to).await?, head: Vec::new(), to: to.clone() })
    }

    /// Connects again.
    pub async fn renew(&mut self) -> Result<(), Failure> {
        self.wire = Wire::connect(&self.to).await?;
        Ok(())
    }

    /// Sends a request; answers the body of a 2xx.
    pub async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<&[u8], Failure> {
        use std::io::Write;

        self.head.clear();
        let (headers, length) = (&self.to.headers, body.len());
        write!(self.head, "{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n")?;
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
