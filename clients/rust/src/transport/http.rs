//! Requests with reqwest: HTTP/1.1 over connections that are kept.

use std::{error::Error as _, sync::Arc, time::Duration};

use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    redirect,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use super::{Answer, NoAnswer, Request};
use crate::{Applied, Error};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The server closes connections that are idle for 75 s: a shorter time avoids requests on a
/// connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    base: Arc<str>,
    authorization: Option<HeaderValue>,
}

impl Http {
    /// Returns a transport to the server at this URL. Connects at the first request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL is not one of a server, or if TLS cannot be set up.
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::Usage { field: "url", reason };
        let parsed = Url::parse(url).map_err(|error| {
            invalid(format!("{url:?} is no URL ({error}); give one like http://127.0.0.1:9277"))
        })?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(invalid(format!("{url:?} must begin with http:// or https:// and a host")));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() || has_user(&parsed) {
            return Err(invalid(format!(
                "{} must have no user, query or fragment; give a token with Queue::token",
                parsed.host_str().unwrap_or_default()
            )));
        }
        let client = Client::builder()
            .tls_backend_preconfigured(tls(parsed.scheme() == "https")?)
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(15))
            .build()
            .map_err(|error| invalid(format!("failed to set up a client: {}", text(&error))))?;
        let base = parsed.as_str().trim_end_matches('/').into();
        Ok(Http { client, base, authorization: None })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends this access token with each request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if it cannot be in a header.
    pub(crate) fn set_token(&mut self, token: &str) -> Result<(), Error> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            let reason = "has characters that no token has, such as a line break".to_owned();
            Error::Usage { field: "token", reason }
        })?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    pub(crate) async fn send(&self, url: &str, request: Request) -> Result<Answer, NoAnswer> {
        let mut builder = self.client.request(request.method, url).timeout(request.timeout);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        if let Some(body) = request.body {
            let json = HeaderValue::from_static("application/json");
            builder = builder.header(CONTENT_TYPE, json).body(body);
        }
        let response = builder.send().await.map_err(no_answer)?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
        let body = response.bytes().await.map_err(no_answer)?.into();
        Ok(Answer { status, retry_after, body })
    }
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the settings of TLS: the certificates of the platform, which are read for https alone.
/// On Linux, `SSL_CERT_FILE` names others.
fn tls(is_used: bool) -> Result<ClientConfig, Error> {
    let invalid = |error: rustls::Error| Error::Usage {
        field: "url",
        reason: format!("failed to set up TLS: {error}"),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    let builder = if is_used {
        builder.with_platform_verifier().map_err(invalid)?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    Some(Duration::from_secs(value.to_str().ok()?.parse().ok()?))
}

fn no_answer(error: reqwest::Error) -> NoAnswer {
    let is_sent = !error.is_connect() && !error.is_builder();
    NoAnswer {
        applied: if is_sent { Applied::Unknown } else { Applied::No },
        reason: text(&error.without_url()),
    }
}

/// Returns the text of an error and its causes: that of reqwest alone only says "error sending
/// request".
fn text(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
