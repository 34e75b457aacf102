//! Push of a topic: the setting by which servers send its jobs to a URL.

mod rate;
mod secret;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{backoff::Backoff, duration::Millis, headers::Headers, time::UnixMillis};

pub use self::{
    rate::{Rate, RateError},
    secret::decode_secret,
};

/// Maximum length of the URL of a push, in bytes.
pub const MAX_PUSH_URL_BYTES: usize = 2048;
/// Maximum number of requests of a push at once.
pub const MAX_PUSH_CONCURRENCY: u16 = 1000;
/// Shortest time for one request of a push.
pub const MIN_PUSH_TIMEOUT: Millis = Millis::new(1_000);
/// Longest time for one request of a push.
pub const MAX_PUSH_TIMEOUT: Millis = Millis::new(300_000);
/// Maximum number of secrets of a push.
pub const MAX_PUSH_SECRETS: usize = 5;
/// Maximum number of jobs of one request of a push.
pub const MAX_PUSH_BATCH: u16 = 1000;
/// Longest time that the first job of a request waits for more jobs.
pub const MAX_PUSH_LINGER: Millis = Millis::new(10_000);

/// Push of a topic as stores keep it, in JSON: names and values must stay stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Push {
    /// URL of the endpoint. It was valid when it was set; the client checks it again.
    pub url: String,
    /// Maximum number of requests at once, of all servers together.
    pub concurrency: u16,
    /// Maximum number of requests per second, minute or hour, of all servers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Time for one request, from the connection to the end of the answer.
    #[serde(rename = "timeout_ms")]
    pub timeout: u64,
    /// Keys of the signatures, in the form `whsec_<base64>`. The first one is the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Hidden>,
    /// Headers of each request. Headers of the job override them.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Value of the header `authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Hidden>,
    /// How jobs are collected into one request; `None` if each job has a request of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PushBatch>,
    /// The wait after a counted failure of a job without a backoff of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Headers whose values are not shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_headers: BTreeMap<String, Hidden>,
    /// Name of the token that set it; `None` if it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// When a server last had a job accepted, to within a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<UnixMillis>,
    /// Why no requests are sent; `None` if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PushPause>,
}

/// How a push collects jobs into one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushBatch {
    /// Maximum number of jobs of a request.
    pub max: u16,
    /// How long the first job of a request waits for more jobs, in milliseconds.
    #[serde(rename = "linger_ms")]
    pub linger: u64,
}

/// Why a push sends no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PushPause {
    /// A client paused it.
    Requested,
    /// An import stored it without its secrets.
    Imported,
    /// Requests have failed for five days.
    Failing,
    /// The token that set it was revoked.
    Revoked,
}

impl PushPause {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Imported => "imported",
            Self::Failing => "failing",
            Self::Revoked => "revoked",
        }
    }
}

/// A text that logs do not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Push {
    /// Returns the time for one request.
    pub fn timeout(&self) -> Millis {
        Millis::new(self.timeout)
    }

    /// Returns whether the numbers are within the limits that hold for clients.
    pub fn is_within_limits(&self) -> bool {
        let fits = |batch: PushBatch| {
            (1..=MAX_PUSH_BATCH).contains(&batch.max) && batch.linger <= MAX_PUSH_LINGER.get()
        };
        self.url.len() <= MAX_PUSH_URL_BYTES
            && (1..=MAX_PUSH_CONCURRENCY).contains(&self.concurrency)
            && (MIN_PUSH_TIMEOUT..=MAX_PUSH_TIMEOUT).contains(&self.timeout())
            && self.batch.is_none_or(fits)
    }

    /// Returns the push without texts that an export must not contain. It is paused until a client
    /// resumes it.
    #[must_use]
    pub fn exported(&self) -> Self {
        let paused = Some(PushPause::Imported);
        Self {
            secrets: Vec::new(),
            authorization: None,
            secret_headers: BTreeMap::new(),
            set_by: None,
            accepted_at: None,
            paused,
            ..self.clone()
        }
    }

    /// Returns whether both send the same requests.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let accepted_at = other.accepted_at;
        Self { accepted_at, ..self.clone() } == *other
    }
}

#[cfg(test)]
mod tests;
