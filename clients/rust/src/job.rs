//! Jobs as handlers get them.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::value::{millis, time};

/// A job in the hands of a handler.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Job<T> {
    /// Id.
    pub id: String,
    /// Topic.
    pub topic: String,
    /// Body. A job whose body does not fit the type is buried, with what did not fit.
    pub body: T,
    /// Number of this attempt, from 1. A job may be delivered more than once: an attempt whose
    /// reservation was lost may have done its work.
    pub attempt: u32,
    /// Number of attempts after which the job is dead; 0 is no limit.
    pub max_attempts: u32,
    /// When the job was due.
    #[serde(with = "time")]
    pub due_at: SystemTime,
    /// When the job was put.
    #[serde(with = "time")]
    pub created_at: SystemTime,
    /// How long the job is reserved without a touch. The worker touches the job in time.
    #[serde(with = "millis")]
    pub ttr: Duration,
    /// Priority, 0 to 9.
    #[serde(default = "default_priority")]
    pub priority: u8,
    /// Position of the put in a distributed trace.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// Headers of the put.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Topic in which the job died before it moved to this one.
    #[serde(default)]
    pub dead_from: Option<String>,
    /// When the job expires.
    #[serde(default, with = "time::option")]
    pub expires_at: Option<SystemTime>,
    /// Instant of the schedule that put the job.
    #[serde(default, with = "time::option")]
    pub scheduled_at: Option<SystemTime>,
    reservation: String,
}

fn default_priority() -> u8 {
    4
}

/// Job of a pop, before its topic's handler and type are known.
pub(crate) type Popped = Job<Box<RawValue>>;

/// A consumer's hold on a job, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) reservation: String,
    pub(crate) ttr: Duration,
}

impl Popped {
    pub(crate) fn reserved(&self) -> Reserved {
        Reserved {
            id: self.id.clone(),
            topic: self.topic.clone(),
            reservation: self.reservation.clone(),
            ttr: self.ttr,
        }
    }

    /// Returns the job with its body decoded.
    ///
    /// # Errors
    ///
    /// The text of what does not fit.
    pub(crate) fn decode<T: DeserializeOwned>(self) -> Result<Job<T>, String> {
        let mut json = serde_json::Deserializer::from_str(self.body.get());
        let body = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let type_name = std::any::type_name::<T>();
            match error.path().to_string().as_str() {
                "." => format!("the body does not fit {type_name}: {}", error.inner()),
                path => format!("the body does not fit {type_name}: {path}: {}", error.inner()),
            }
        })?;
        Ok(self.with_body(body))
    }

    fn with_body<T>(self, body: T) -> Job<T> {
        Job {
            body,
            id: self.id,
            topic: self.topic,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            due_at: self.due_at,
            created_at: self.created_at,
            ttr: self.ttr,
            priority: self.priority,
            traceparent: self.traceparent,
            headers: self.headers,
            dead_from: self.dead_from,
            expires_at: self.expires_at,
            scheduled_at: self.scheduled_at,
            reservation: self.reservation,
        }
    }
}
