//! Failures of requests.

use std::error::Error;

use crate::{connection::Unanswered, url::Target};

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
    /// Classifies the end of a connection without an answer.
    pub(crate) fn from_unanswered(unanswered: &Unanswered, target: &Target) -> Self {
        let reason = innermost(&unanswered.error);
        if unanswered.has_written {
            return Self::Lost(format!(
                "{target} closed the connection or sent an invalid answer: {reason}"
            ));
        }
        Self::NotSent(format!(
            "{target} closed the connection before the request was sent: {reason}"
        ))
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
