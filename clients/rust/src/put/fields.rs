//! Fields of a put.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use crate::value::{
    millis::{self, Seconds},
    time,
};

/// Waits between the attempts of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Backoff {
    /// One wait for each attempt; the last one repeats.
    List(#[serde(with = "list")] Vec<Duration>),
    /// After attempt n, `initial × factor^(n − 1)`, up to `max`, varied by ± `jitter` of itself.
    Exponential {
        /// Wait after the first attempt, at least 1 ms.
        #[serde(with = "millis")]
        initial: Duration,
        /// 1 to 1,000.
        factor: f64,
        /// Longest wait.
        #[serde(with = "millis")]
        max: Duration,
        /// 0 to 1.
        jitter: f64,
    },
}

/// Effect of a put on a job that has its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// The put is refused with `job_exists`.
    Reject,
    /// The existing job stays as it is, if it has the same topic.
    Keep,
    /// The put replaces the existing job, if it has the same topic and no consumer holds it.
    Replace,
}

/// Put as it is sent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Fields {
    pub(crate) topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Box<RawValue>>,
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub(crate) delay: Option<Duration>,
    #[serde(with = "time::option", skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<SystemTime>,
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub(crate) ttr: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_conflict: Option<OnConflict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub(crate) expires_after: Option<Duration>,
    #[serde(with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub(crate) finished_retention: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) more: Map<String, Value>,
}

/// List of durations in seconds.
mod list {
    use serde::{Deserializer, Serializer};

    use super::{Deserialize, Duration, Seconds, Serialize};

    pub(super) fn serialize<S: Serializer>(
        list: &[Duration],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.iter().copied().map(Seconds).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Duration>, D::Error> {
        let list = Vec::<Seconds>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|seconds| seconds.0).collect())
    }
}
