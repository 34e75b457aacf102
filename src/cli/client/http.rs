//! Requests to the server over HTTP/1.1, on connections that are kept for later requests.

use std::{
    error::Error,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, StatusCode,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    failure::{Failure, MAY_BE_APPLIED, Problem},
    show::Output,
};
use crate::cli::remote::Remote;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an answer, in addition to the time that the request itself waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of a server.
pub struct Client {
    pub output: Output,
    pub url: String,
    remote: Remote,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// Request to the server.
pub struct Request {
    method: Method,
    path: String,
    body: Bytes,
    wait: Duration,
}

impl Request {
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: Bytes::new(), wait: Duration::ZERO }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Sends the fields as a JSON object.
    pub fn json(self, fields: &impl Serialize) -> Result<Self, Failure> {
        let body = serde_json::to_vec(fields);
        Ok(self.body(body.map_err(|cause| Failure::Usage(cause.to_string()))?))
    }

    /// Sends JSON text.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Allows the server to wait this long before it answers.
    pub fn wait(self, wait: impl Into<Duration>) -> Self {
        Self { wait: wait.into(), ..self }
    }
}

impl Client {
    pub fn new(remote: Remote, url: String, output: Output) -> Self {
        Self { output, url, remote, idle: Mutex::default() }
    }

    /// Sends a request. Returns the body of a successful answer.
    ///
    /// # Errors
    /// The server is unreachable, or refuses the request.
    pub async fn send(&self, request: Request) -> Result<Bytes, Failure> {
        let limit = ANSWER_TIMEOUT + request.wait;
        let (is_change, is_sent) = (request.method != Method::GET, AtomicBool::new(false));
        let answer = timeout(limit, self.exchange(request, &is_sent)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time").into())
        });
        let (status, body) = answer.map_err(|cause| {
            self.unreachable(&*cause, is_change && is_sent.load(Ordering::Relaxed))
        })?;
        if status.is_success() {
            return Ok(body);
        }
        let problem = serde_json::from_slice::<Problem>(&body).ok();
        // A proxy may answer with JSON of its own.
        let Some(problem) = problem.filter(|problem| !problem.code.is_empty()) else {
            let text = format!("{} answered {status} and is no delay-queue: check --url", self.url);
            return Err(Failure::Unreachable(text));
        };
        let problem = Problem { status: status.as_u16(), ..problem };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failure::NotAllowed(problem)),
            _ => Err(Failure::Refused(problem)),
        }
    }

    fn unreachable(&self, cause: &(dyn Error + 'static), may_be_applied: bool) -> Failure {
        let cause = match cause.downcast_ref::<io::Error>() {
            Some(cause) => Remote::explain(cause),
            None => cause.source().map_or_else(|| cause.to_string(), ToString::to_string),
        };
        let advice = if may_be_applied { format!("; {MAY_BE_APPLIED}") } else { String::new() };
        Failure::Unreachable(format!("failed to reach the server at {}: {cause}{advice}", self.url))
    }

    async fn exchange(
        &self,
        request: Request,
        is_sent: &AtomicBool,
    ) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut built = http::Request::builder()
            .method(request.method)
            .uri(request.path)
            .header("host", self.remote.server.to_string())
            .header("content-type", "application/json");
        if let Some(token) = self.remote.token() {
            built = built.header("authorization", format!("Bearer {token}"));
        }
        connection.ready().await?;
        is_sent.store(true, Ordering::Relaxed);
        let answer = connection.send_request(built.body(Full::new(request.body))?).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok((status, body))
    }

    /// Takes a connection that the server has not closed.
    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect(self.remote.server.to_string());
        let too_late = || io::Error::new(io::ErrorKind::TimedOut, "it did not accept in time");
        let stream = timeout(CONNECT_TIMEOUT, stream).await.map_err(|_| too_late())??;
        stream.set_nodelay(true)?;
        match &self.remote.tls {
            None => start(stream).await,
            Some((config, name)) => {
                let tls = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream);
                start(timeout(CONNECT_TIMEOUT, tls).await.map_err(|_| too_late())??).await
            }
        }
    }
}

async fn start(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
