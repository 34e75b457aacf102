//! Failures of requests.

use std::error::Error;

use hyper_util::client::legacy;

use crate::{connect::ConnectError, url::Target};

/// Reason why there is no answer, with a text that names the host or the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection, or one that closed before the request was written: the endpoint cannot have
    /// seen it.
    #[error("{0}")]
    NotSent(String),
    /// The time ran out on an established connection: the endpoint may have seen the request.
    #[error("{0}")]
    TimedOut(String),
    /// The exchange broke off: the endpoint may have seen the request.
    #[error("{0}")]
    Lost(String),
    /// The answer has a Content-Encoding other than identity, though the request accepted none.
    #[error("{0}")]
    Compressed(String),
}

impl Failure {
    /// Classifies an error of hyper's client.
    pub(crate) fn of(error: &legacy::Error, target: &Target) -> Self {
        let source = error.source();
        if let Some(connect) = source.and_then(|source| source.downcast_ref::<ConnectError>()) {
            return Self::NotSent(connect.to_string());
        }
        let reason = innermost(error);
        // Without a connection nothing was written. On one, hyper cancels a request only if it
        // never took it up.
        let is_canceled = source
            .and_then(|source| source.downcast_ref::<hyper::Error>())
            .is_some_and(hyper::Error::is_canceled);
        if error.connect_info().is_none() || is_canceled {
            return Self::NotSent(format!(
                "{target} closed the connection before the request was sent: {reason}"
            ));
        }
        Self::Lost(format!("{target} closed the connection or sent an invalid answer: {reason}"))
    }
}

/// Returns the text of the first cause.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
