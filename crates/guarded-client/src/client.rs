//! The client.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHORIZATION,
        TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
    uri::{Authority, PathAndQuery},
};
use http_body_util::Full;
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    answer::Answer,
    connect::Dialer,
    connection::Connection,
    failure::Failure,
    lookups::Lookups,
    options::{ClientError, Limits, Options},
    pool::Pool,
    resolve::{Resolve, SystemResolver},
    tls::Tls,
    url::{Target, TargetUrl},
};

/// Headers that describe a connection or a body, and so are the client's own. Contradictions with
/// it could hide a second request in the first.
const OWN_HEADERS: [HeaderName; 12] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Names that one user of a client looks up at once; more wait.
pub const MAX_OWN_LOOKUPS: usize = 8;

/// Returns whether requests leave out a header, whatever its value, since the client sets its own.
pub fn is_dropped(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own.as_str()))
}

/// HTTP client for URLs that users chose. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    dialer: Arc<Dialer>,
    /// Places for look-ups of names.
    own_lookups: Arc<Semaphore>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("allowed", &self.dialer.allowed)
            .field("proxy", &self.dialer.proxy)
            .finish()
    }
}

impl Client {
    /// Starts a client that resolves names as the operating system does. Reads the platform's roots
    /// from disk.
    ///
    /// # Errors
    ///
    /// Fails if the additional certificates are unreadable. Missing platform roots are a
    /// [`Client::warning`].
    pub fn new(options: Options) -> Result<Self, ClientError> {
        Self::with_resolver(options, Arc::new(SystemResolver::default()))
    }

    /// Starts a client with a resolver of its own. The client checks the addresses that the
    /// resolver returns.
    ///
    /// # Errors
    ///
    /// Fails as [`Client::new`] does.
    pub fn with_resolver(
        options: Options,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, ClientError> {
        let Options { allowed, roots, proxy, connect_timeout } = options;
        let tls = Tls::new(roots.as_deref())?;
        let timeout = connect_timeout.min(Duration::from_secs(86_400));
        let lookups = Arc::new(Lookups::new(resolver));
        let dialer = Arc::new(Dialer { allowed, lookups, proxy, tls, timeout });
        let own_lookups = Arc::new(Semaphore::new(MAX_OWN_LOOKUPS));
        Ok(Self { pool: Arc::default(), dialer, own_lookups })
    }

    /// Returns a client for another user, which shares the connections. Each user may look up
    /// [`MAX_OWN_LOOKUPS`] names at once, so that no user takes all places.
    #[must_use]
    pub fn for_user(&self) -> Self {
        Self { own_lookups: Arc::new(Semaphore::new(MAX_OWN_LOOKUPS)), ..self.clone() }
    }

    /// Returns a text for the log if the platform's root certificates are missing or partly
    /// unreadable.
    pub fn warning(&self) -> Option<&str> {
        self.dialer.tls.warning.as_deref()
    }

    /// Sends a POST request and reads the answer. Redirects are not followed.
    ///
    /// Drops headers that describe a connection or the encoding of a body: the client sets its
    /// own.
    ///
    /// # Errors
    ///
    /// [`Failure`], which says whether the endpoint may have seen the request.
    pub async fn post(
        &self,
        url: &TargetUrl,
        headers: HeaderMap,
        body: Bytes,
        limits: Limits,
    ) -> Result<Answer, Failure> {
        url.check(&self.dialer.allowed).map_err(|refused| Failure::NotSent(refused.to_string()))?;
        let request = request(url, headers, body)?;
        let mut is_connected = false;
        let exchange = self.exchange(url.target(), request, limits.answer_bytes, &mut is_connected);
        match timeout(limits.timeout, exchange).await {
            Ok(Ok((answer, connection))) => {
                self.keep(url.target(), connection, &answer).await;
                Ok(answer)
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(timed_out(is_connected, url, limits.timeout)),
        }
    }

    /// Sends a request on a kept connection or a new one. `is_connected` tells whether the endpoint
    /// may have seen it. If a kept connection ends before the first byte of an answer, the endpoint
    /// has probably closed it meanwhile: the request is repeated once, on a new connection.
    async fn exchange(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
        answer_bytes: usize,
        is_connected: &mut bool,
    ) -> Result<(Answer, Connection), Failure> {
        let mut kept = self.pool.take(target);
        loop {
            let is_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.open(target).await?,
            };
            *is_connected = true;
            match connection.send(request.clone()).await {
                Ok(response) => {
                    let peer = connection.peer.ip();
                    let answer = Answer::read(response, answer_bytes, target, peer).await?;
                    return Ok((answer, connection));
                }
                Err(unanswered) if is_kept && !unanswered.has_read => *is_connected = false,
                Err(unanswered) => return Err(Failure::from_unanswered(&unanswered, target)),
            }
        }
    }

    async fn open(&self, target: &Target) -> Result<Connection, Failure> {
        let stream = self.dialer.connect(target, &self.own_lookups).await;
        let stream = stream.map_err(|error| Failure::NotSent(error.to_string()))?;
        Connection::start(stream).await.map_err(|error| Failure::NotSent(error.to_string()))
    }

    /// Keeps the connection of an answer for later requests, if its end was read.
    async fn keep(&self, target: &Target, mut connection: Connection, answer: &Answer) {
        if answer.is_whole && connection.becomes_ready().await {
            self.pool.put(target, connection, &answer.headers);
        }
    }
}

/// Returns the request in the form of HTTP/1.1: a path, and the host as a header.
fn request(
    url: &TargetUrl,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let invalid = |error: &dyn fmt::Display| Failure::NotSent(format!("{url} is invalid: {error}"));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    let path = url.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    *request.uri_mut() = path.parse().map_err(|error| invalid(&error))?;
    *request.headers_mut() = headers;
    for name in &OWN_HEADERS {
        request.headers_mut().remove(name);
    }
    let host = url.uri().authority().map_or("", Authority::as_str);
    let host = HeaderValue::from_str(host).map_err(|error| invalid(&error))?;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

fn timed_out(is_connected: bool, url: &TargetUrl, limit: Duration) -> Failure {
    let target = url.target();
    if is_connected {
        Failure::TimedOut(format!("{target} did not answer within {limit:?}"))
    } else {
        Failure::NotSent(format!("{target} accepted no connection within {limit:?}"))
    }
}
