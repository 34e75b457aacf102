//! One request and its answer, over HTTP or to the fake.

mod http;

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::de::DeserializeOwned;

pub(crate) use self::http::Http;
use crate::{Applied, Error, Refused};

/// Characters of ids and topics that stand for themselves in a path.
const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-').remove(b':').remove(b',');

/// Longest part of a foreign answer that an error quotes, in characters.
const QUOTED: usize = 200;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Path and query below `/v1`.
    pub(crate) path: String,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// Failure to get an answer.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) applied: Applied,
    pub(crate) reason: String,
}

/// Way to a server.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Http(Http),
    #[cfg(feature = "fake")]
    Fake(std::sync::Arc<crate::fake::server::Server>),
}

impl Transport {
    /// Sends a request once.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] without an answer, [`Error::Refused`] or [`Error::Protocol`] with a
    /// status from 300.
    pub(crate) async fn send(&self, request: Request) -> Result<(String, Answer), Error> {
        let url = self.url(&request.path);
        let answer = match self {
            Transport::Http(http) => http.send(&url, request).await,
            #[cfg(feature = "fake")]
            Transport::Fake(server) => Ok(server.answer(request).await),
        };
        match answer {
            Ok(answer) if answer.status < 300 => Ok((url, answer)),
            Ok(answer) => Err(refusal(url, answer)),
            Err(NoAnswer { applied, reason }) => Err(Error::Unavailable { url, applied, reason }),
        }
    }

    /// The same, and parses the answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        let (url, answer) = self.send(request).await?;
        parse(url, &answer)
    }

    /// Returns the URL of a path, without its query, for messages and requests alike.
    fn url(&self, path: &str) -> String {
        match self {
            Transport::Http(http) => format!("{}/v1{path}", http.base()),
            #[cfg(feature = "fake")]
            Transport::Fake(_) => format!("fake:{path}"),
        }
    }
}

/// Parses the answer of a URL.
pub(crate) fn parse<T: DeserializeOwned>(url: String, answer: &Answer) -> Result<T, Error> {
    serde_json::from_slice(&answer.body).map_err(|error| Error::Protocol {
        url,
        reason: format!("{error} in {}", quoted(&answer.body)),
    })
}

/// Returns the error that an answer with a status from 300 stands for.
fn refusal(url: String, answer: Answer) -> Error {
    let Answer { status, retry_after, body } = answer;
    match serde_json::from_slice::<Refused>(&body) {
        Ok(refused) if !refused.code.is_empty() => {
            Error::Refused(Box::new(Refused { status, retry_after, ..refused }))
        }
        // A proxy in front of the server.
        _ if status == 429 || status >= 500 => {
            let applied = if status == 429 { Applied::No } else { Applied::Unknown };
            let detail = quoted(&body);
            Error::Refused(Box::new(Refused {
                status,
                retry_after,
                applied,
                detail,
                ..Refused::default()
            }))
        }
        _ => Error::Protocol { url, reason: format!("status {status} with {}", quoted(&body)) },
    }
}

fn quoted(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(QUOTED).collect();
    format!("{text:?}")
}

/// Returns an id, a topic or a list of topics as a part of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}
