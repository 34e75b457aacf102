//! The client.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, Method, Request,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHORIZATION,
        TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{self, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::timeout;

use crate::{
    answer::Answer,
    connect::{Connector, Dialer},
    failure::Failure,
    options::{ClientError, Limits, Options},
    resolve::{Resolve, SystemResolver},
    tls::Tls,
    url::TargetUrl,
};

/// Greatest size of an answer's headers. HTTP/1 reads bodies in pieces of the same size.
const MAX_HEADERS: usize = 65_536;

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

/// HTTP client for URLs that users chose. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    dialer: Arc<Dialer>,
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
        let dialer = Arc::new(Dialer { allowed, resolver, proxy, tls, timeout });
        let inner = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(64)
            .retry_canceled_requests(true)
            .http1_max_buf_size(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADERS as u32)
            .http2_initial_stream_window_size(256 * 1024)
            .http2_initial_connection_window_size(1024 * 1024)
            // One dead connection would hold up all requests to its target.
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .build(Connector(dialer.clone()));
        Ok(Self { inner, dialer })
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
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.uri().clone();
        *request.headers_mut() = headers;
        for name in &OWN_HEADERS {
            request.headers_mut().remove(name);
        }
        let connection = capture_connection(&mut request);
        let exchange = async {
            let response = self.inner.request(request).await;
            let response = response.map_err(|error| Failure::of(&error, url.target()))?;
            Answer::read(response, limits.answer_bytes, url.target()).await
        };
        match timeout(limits.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(timed_out(connection.connection_metadata().is_some(), url, limits.timeout))
            }
        }
    }
}

fn timed_out(is_connected: bool, url: &TargetUrl, limit: Duration) -> Failure {
    let target = url.target();
    if is_connected {
        Failure::TimedOut(format!("{target} did not answer within {limit:?}"))
    } else {
        Failure::NotSent(format!("{target} accepted no connection within {limit:?}"))
    }
}
