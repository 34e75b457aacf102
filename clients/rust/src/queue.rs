//! The server, as producers and workers call it.

use std::{future::Future, sync::Arc, time::Duration};

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, Put,
    put::Gatherer,
    retry::Retries,
    transport::{Answer, Http, Request, Transport},
};

const RETRY_FOR: Duration = Duration::from_secs(30);
/// Time for the answer to a request that does not wait.
const ANSWER: Duration = Duration::from_secs(10);

/// A delay-queue server. Clones share its connections, and the requests of concurrent puts.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) transport: Transport,
    pub(crate) retry_for: Duration,
    pub(crate) gatherer: Arc<Gatherer>,
}

impl Queue {
    /// Returns the queue of the server at a URL such as `http://127.0.0.1:9277`. Connects at the
    /// first call. For `https`, the platform's certificates are trusted; on Linux, the environment
    /// variable `SSL_CERT_FILE` can name others.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL is invalid.
    pub fn new(url: &str) -> Result<Self, Error> {
        Ok(Queue::with(Transport::Http(Http::new(url)?), RETRY_FOR))
    }

    pub(crate) fn with(transport: Transport, retry_for: Duration) -> Self {
        Queue { transport, retry_for, gatherer: Arc::default() }
    }

    /// Sends an access token (`dq_…`) with each call. Default: none.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the text cannot be a token.
    pub fn token(mut self, token: &str) -> Result<Self, Error> {
        // A request has one token.
        self.gatherer = Arc::default();
        match &mut self.transport {
            Transport::Http(http) => http.set_token(token)?,
            #[cfg(feature = "fake")]
            Transport::Fake(_) => {}
        }
        Ok(self)
    }

    /// Sets how long a call is repeated while the server does not answer, or answers with 429 or
    /// 503. After that, the call fails with the last error. Default: 30 s.
    pub fn retry_for(mut self, retry_for: Duration) -> Self {
        self.retry_for = retry_for;
        self
    }

    /// Begins a put: set its fields, then await it. See [`Put`].
    pub fn put<T: Serialize + ?Sized>(&self, topic: impl Into<String>, body: &T) -> Put {
        Put::new(self.clone(), topic.into(), body)
    }

    /// Sends a request until it is answered or `retry_for` is over.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, Error> {
        let call = || self.call_once(method.clone(), path, body.clone(), Duration::ZERO);
        self.repeat(call).await
    }

    /// Sends one request, which takes up to `wait` longer than others.
    pub(crate) async fn call_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        wait: Duration,
    ) -> Result<T, Error> {
        let path = path.to_owned();
        self.transport.call(Request { method, path, body, timeout: ANSWER + wait }).await
    }

    /// Sends one put or batch, and returns the URL and the answer to parse.
    pub(crate) async fn post_once(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(String, Answer), Error> {
        let (method, path, body) = (Method::POST, path.to_owned(), Some(body));
        self.transport.send(Request { method, path, body, timeout: ANSWER }).await
    }

    pub(crate) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let mut retries = Retries::new(self.retry_for);
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => retries.pause(error).await?,
            }
        }
    }
}

/// Encodes a request of this crate's own types.
pub(crate) fn encode(value: &impl Serialize, field: &'static str) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::encode(field, error))
}
