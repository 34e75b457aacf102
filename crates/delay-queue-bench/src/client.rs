//! An HTTP/1.1 client with little overhead. It sends one request at a time on each connection.

use std::{io, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use super::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum wait for an answer: more than the longest pop, which waits for a minute.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The server took longer than [`ANSWER_TIMEOUT`].
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
pub struct NoAnswer;

/// A delay-queue server to measure.
pub struct Site {
    /// URL for the report.
    pub url: String,
    /// `<host>:<port>`, also for the header `Host`.
    pub host: String,
    /// Additional header lines of each request, each with its line end.
    pub headers: String,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<Tls>,
}

/// TLS settings of a connection.
#[derive(Clone)]
pub struct Tls {
    /// Configuration with the certificates to accept.
    pub config: Arc<ClientConfig>,
    /// Server name that the certificate must contain.
    pub name: ServerName<'static>,
    /// Returns why a handshake failed.
    pub explain: fn(&io::Error) -> String,
}

/// Address and settings of connections.
#[derive(Clone)]
pub struct Destination {
    address: SocketAddr,
    /// Header lines of each HTTP request.
    headers: Rc<str>,
    tls: Option<Tls>,
}

impl Destination {
    /// Resolves a server to the first address of its host.
    ///
    /// # Errors
    /// The host has no address.
    pub(crate) async fn resolve(site: Site) -> Result<Self, Failure> {
        let address = resolve(&site.url, &site.host).await?;
        let headers = format!("Host: {}\r\n{}", site.host, site.headers);
        Ok(Self { address, headers: headers.into(), tls: site.tls })
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(Tls { config, name, explain }) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let explained = |cause: io::Error| io::Error::new(cause.kind(), explain(&cause));
                Box::new(connector.connect(name.clone(), stream).await.map_err(explained)?)
            }
        })
    }
}

impl From<SocketAddr> for Destination {
    /// Returns the destination of a program with another protocol.
    fn from(address: SocketAddr) -> Self {
        Self { address, headers: "".into(), tls: None }
    }
}

/// Finds the first address of the host and port of a URL.
pub(crate) async fn resolve(url: &str, host: &str) -> Result<SocketAddr, Failure> {
    let failed =
        |cause: &dyn std::fmt::Display| format!("failed to resolve the address {url:?}: {cause}");
    let mut found = tokio::net::lookup_host(host).await.map_err(|cause| failed(&cause))?;
    Ok(found.next().ok_or_else(|| failed(&"the name has no address"))?)
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A connection that sends and receives bytes.
pub struct Wire {
    stream: Box<dyn Stream>,
    /// Bytes read since the last [`send`](Self::send).
    pub read: BytesMut,
}

impl Wire {
    /// Opens a connection.
    ///
    /// # Errors
    /// The other end refuses, or does not answer within three seconds.
    pub async fn connect(to: &Destination) -> Result<Self, Failure> {
        let address = to.address;
        let stream = timeout(CONNECT_TIMEOUT, to.connect()).await;
        let stream = stream
            .map_err(|_| format!("{address} does not answer"))?
            .map_err(|cause| format!("failed to connect to {address}: {cause}"))?;
        Ok(Self { stream, read: BytesMut::with_capacity(16 << 10) })
    }

    /// Drops the bytes that were read before, and sends `bytes`.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.read.clear();
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for bytes and appends all that have arrived, at least one, to `read`.
    ///
    /// # Errors
    /// The connection broke or was closed, or no byte arrived for 90 seconds.
    pub async fn read_more(&mut self) -> Result<(), Failure> {
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

    /// Replaces the connection by a new one.
    pub async fn reconnect(&mut self) -> Result<(), Failure> {
        self.wire = Wire::connect(&self.to).await?;
        Ok(())
    }

    /// Sends a request; returns the body of a 2xx answer.
    pub async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<&[u8], Failure> {
        use std::io::Write;

        self.head.clear();
        let (headers, length) = (&self.to.headers, body.len());
        write!(self.head, "{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n")?;
        self.head.extend_from_slice(body);
        self.wire.send(&self.head).await?;
        let (status, length, start) = loop {
            self.wire.read_more().await?;
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
            self.wire.read_more().await?;
        }
        let body = &self.wire.read[start..start + length];
        if !(200..300).contains(&status) {
            let body = String::from_utf8_lossy(body);
            return Err(format!("{method} {path} was answered with {status}: {body}").into());
        }
        Ok(body)
    }
}
