//! Jobs as the server stores them.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    Backoff,
    value::{millis, time},
};

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// Not due yet.
    Delayed,
    /// Due, and held by no consumer.
    Ready,
    /// Held by a consumer.
    Reserved,
    /// Out of attempts, buried or expired.
    Dead,
    /// Done, and kept with its result.
    Finished,
    /// Not known: the answer was lost, or the state is newer than this crate.
    #[serde(other)]
    Unknown,
}

/// A job as the server stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredJob {
    /// Id.
    pub id: String,
    /// Topic.
    pub topic: String,
    /// State.
    pub state: State,
    /// Body as JSON; absent once the job is finished. See [`StoredJob::body`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// Result as JSON, if the job is finished and has one. See [`StoredJob::result`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Number of attempts that count.
    pub attempt: u32,
    /// Number of attempts after which the job is dead; 0 is no limit.
    pub max_attempts: u32,
    /// Priority, 0 to 9.
    pub priority: u8,
    /// When the job is or was due, for its next attempt.
    #[serde(with = "time")]
    pub due_at: SystemTime,
    /// When the job was put.
    #[serde(with = "time")]
    pub created_at: SystemTime,
    /// How long a consumer may hold the job without a touch.
    #[serde(with = "millis")]
    pub ttr: Duration,
    /// Waits between attempts.
    #[serde(default)]
    pub backoff: Option<Backoff>,
    /// When the TTR ends, while the job is reserved.
    #[serde(default, with = "time::option")]
    pub reserved_until: Option<SystemTime>,
    /// When the job became dead, while it is.
    #[serde(default, with = "time::option")]
    pub died_at: Option<SystemTime>,
    /// When the job was finished, while it is kept.
    #[serde(default, with = "time::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<SystemTime>,
    /// When the job expires.
    #[serde(default, with = "time::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<SystemTime>,
    /// How long the job is kept after its finish; absent if it is not.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub finished_retention: Option<Duration>,
    /// Text of the last failure.
    #[serde(default)]
    pub error: Option<String>,
    /// Name of the consumer that holds the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Position in a distributed trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Topic in which the job died before it moved here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_from: Option<String>,
    /// Last ten attempts, oldest first.
    #[serde(default)]
    pub history: Vec<Attempt>,
}

/// An attempt of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Number, from 1.
    pub attempt: u32,
    /// When the job was popped.
    #[serde(with = "time")]
    pub started_at: SystemTime,
    /// When the attempt ended.
    #[serde(default, with = "time::option")]
    pub ended_at: Option<SystemTime>,
    /// `released`, `timed_out`, `buried` or `finished`.
    #[serde(default)]
    pub outcome: Option<String>,
    /// False if the attempt does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<bool>,
    /// Beginning of the text of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
}

impl StoredJob {
    /// Decodes the body; `null` if there is none.
    ///
    /// # Errors
    ///
    /// The mismatch, if the body does not fit the type.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        decode(self.body.as_deref())
    }

    /// Decodes the result; `null` if there is none.
    ///
    /// # Errors
    ///
    /// The mismatch, if the result does not fit the type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        decode(self.result.as_deref())
    }
}

fn decode<T: DeserializeOwned>(json: Option<&RawValue>) -> Result<T, serde_json::Error> {
    serde_json::from_str(json.map_or("null", RawValue::get))
}
