//! Errors of calls.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;

/// Failure of a call to the server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the call.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// No answer arrived, although the call was repeated for as long as [`Queue::retry_for`] says.
    ///
    /// [`Queue::retry_for`]: crate::Queue::retry_for
    #[error("no answer from {url}: {reason}")]
    Unavailable {
        /// URL of the call.
        url: String,
        /// Whether the server may have applied the call.
        applied: Applied,
        /// Text of the failure.
        reason: String,
    },
    /// The answer is not one of a delay-queue server.
    #[error("the answer of {url} is not that of a delay-queue server: {reason}; check the URL")]
    Protocol {
        /// URL of the call.
        url: String,
        /// Text of the mismatch, with the beginning of the answer.
        reason: String,
    },
    /// The URL, the token, or another setting is invalid.
    #[error("{field}: {reason}")]
    Usage {
        /// Name of the setting.
        field: &'static str,
        /// The given value and the allowed ones.
        reason: String,
    },
    /// The body, or another value of a call, has no JSON form.
    #[error("failed to encode the {field} as JSON: {source}")]
    Encode {
        /// Name of the value.
        field: &'static str,
        /// Cause.
        source: Arc<serde_json::Error>,
    },
}

/// Refusal of a call by the server, as its `application/problem+json` describes it.
#[derive(Clone, Debug, Default, Deserialize, thiserror::Error)]
#[error("{status} {code}: {detail}{}", if *status == 401 { "; see Queue::token" } else { "" })]
#[non_exhaustive]
pub struct Refused {
    /// HTTP status.
    #[serde(default)]
    pub status: u16,
    /// Stable code, such as `job_exists`. Empty if something in front of the server answered.
    #[serde(default)]
    pub code: String,
    /// Sentence for people.
    #[serde(default)]
    pub detail: String,
    /// Path of the field that is wrong.
    pub field: Option<String>,
    /// Whether the server may have applied the call.
    #[serde(default)]
    pub applied: Applied,
    /// State of the job that is in the way, with `job_exists` and `wrong_state`.
    pub state: Option<crate::State>,
    /// Topic of the job that is in the way, with `job_exists`.
    pub topic: Option<String>,
    /// The request's id in the server's log.
    pub request_id: Option<String>,
    /// Shortest time before a repetition, from `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// Whether a failed call may have changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Applied {
    /// Nothing changed.
    No,
    /// The call may have been applied.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Error {
    /// Returns the code of a refusal, such as `job_exists`.
    pub fn code(&self) -> Option<&str> {
        self.refused().map(|refused| refused.code.as_str())
    }

    /// Returns whether the failed call may have changed something.
    pub fn applied(&self) -> Applied {
        match self {
            Error::Refused(refused) => refused.applied,
            Error::Unavailable { applied, .. } => *applied,
            Error::Protocol { .. } => Applied::Unknown,
            Error::Usage { .. } | Error::Encode { .. } => Applied::No,
        }
    }

    /// Returns the refusal, if the server answered with one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Error::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    pub(crate) fn encode(field: &'static str, error: serde_json::Error) -> Self {
        Error::Encode { field, source: Arc::new(error) }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.refused().map(|refused| refused.status)
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.refused().and_then(|refused| refused.retry_after)
    }

    /// Returns whether the same call may succeed later: there was no answer, or the server is
    /// overloaded, or the effect is unknown.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Error::Refused(refused) => match refused.status {
                429 => refused.code != "topic_full",
                503 => true,
                507 => false,
                500..=599 => refused.applied == Applied::Unknown,
                _ => false,
            },
            Error::Unavailable { .. } => true,
            _ => false,
        }
    }
}
