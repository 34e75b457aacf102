//! Topics and their settings.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{Backoff, Error, Queue, queue::encode, transport::segment, value::millis};

/// Defaults of a topic for jobs that are put from now on. A field that is `None` is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSettings {
    /// How long a consumer may hold a job without a touch.
    #[serde(with = "millis::option")]
    pub ttr: Option<Duration>,
    /// Number of attempts after which a job is dead; 0 is no limit.
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    pub backoff: Option<Backoff>,
    /// How long a dead job is kept.
    #[serde(with = "millis::option")]
    pub dead_retention: Option<Duration>,
    /// How long a finished job is kept.
    #[serde(with = "millis::option")]
    pub finished_retention: Option<Duration>,
    /// Priority, 0 to 9.
    pub priority: Option<u8>,
    /// How long after its due time a job expires.
    #[serde(with = "millis::option")]
    pub expires_after: Option<Duration>,
    /// Topic to which a job of this topic goes when it dies.
    pub dead_to: Option<String>,
}

/// A topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Topic {
    /// Name.
    pub topic: String,
    /// Number of delayed jobs.
    pub delayed: u64,
    /// Number of ready jobs.
    pub ready: u64,
    /// Number of reserved jobs.
    pub reserved: u64,
    /// Number of dead jobs.
    pub dead: u64,
    /// Number of finished jobs that are kept.
    pub finished: u64,
    /// Whether pops get no jobs of the topic.
    pub paused: bool,
    /// Defaults for new jobs.
    #[serde(rename = "defaults")]
    pub settings: TopicSettings,
}

impl Queue {
    /// Returns a topic with its settings. A topic without jobs has zero counts.
    ///
    /// # Errors
    ///
    /// A refusal, or no answer.
    pub async fn topic(&self, topic: &str) -> Result<Topic, Error> {
        self.call(Method::GET, &format!("/topics/{}", segment(topic)), None).await
    }

    /// Replaces the settings of a topic, and returns the topic.
    ///
    /// # Errors
    ///
    /// A refusal, or no answer.
    pub async fn set_topic_settings(
        &self,
        topic: &str,
        settings: &TopicSettings,
    ) -> Result<Topic, Error> {
        let body = encode(settings, "settings")?;
        self.call(Method::PUT, &format!("/topics/{}", segment(topic)), Some(body)).await
    }
}
