//! Requests of the fake, and its refusals.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Backoff, OnConflict,
    value::{millis, time},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    pub(super) topic: String,
    pub(super) id: String,
    pub(super) body: Option<Box<RawValue>>,
    #[serde(default, with = "millis::option")]
    pub(super) delay: Option<Duration>,
    #[serde(default, with = "time::option")]
    pub(super) due_at: Option<SystemTime>,
    #[serde(default, with = "millis::option")]
    pub(super) ttr: Option<Duration>,
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Option<Backoff>,
    pub(super) on_conflict: Option<OnConflict>,
    pub(super) priority: Option<u8>,
    #[serde(default, with = "millis::option")]
    pub(super) expires_after: Option<Duration>,
    #[serde(default, with = "millis::option")]
    pub(super) finished_retention: Option<Duration>,
    pub(super) traceparent: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

/// Entry of a finish, release, bury or touch.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    #[serde(default)]
    pub(super) id: String,
    pub(super) reservation: String,
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<String>,
    #[serde(default, with = "millis::option")]
    pub(super) delay: Option<Duration>,
    pub(super) count_attempt: Option<bool>,
}

/// Refusal, as a problem of the API.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) json: Value,
}

impl Problem {
    pub(super) fn new(status: u16, code: &str, detail: impl Into<String>) -> Self {
        let detail: String = detail.into();
        let json = json!({"status": status, "code": code, "detail": detail, "applied": "no"});
        Problem { status, json }
    }

    pub(super) fn absent(id: &str) -> Self {
        Problem::new(404, "job_not_found", format!("no job has the id {id:?}"))
    }

    pub(super) fn field(field: &str, detail: impl Into<String>) -> Self {
        let mut problem = Problem::new(422, "invalid_field", detail);
        problem.json["field"] = json!(field);
        problem
    }

    /// Adds the job that is in the way.
    pub(super) fn with(mut self, state: &str, topic: &str) -> Self {
        self.json["state"] = json!(state);
        self.json["topic"] = json!(topic);
        self
    }
}

/// Parses a request.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(json).map_err(|error| Problem::field("", error.to_string()))
}

impl Put {
    /// Checks what the server would refuse and a type does not.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let is_name = |name: &str, more: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            (1..=128).contains(&name.len())
                && name.chars().all(is_allowed)
                && ![".", ".."].contains(&name)
        };
        let refused = [
            ("topic", !is_name(&self.topic, "._-")),
            ("id", !is_name(&self.id, "._:-")),
            ("delay", self.delay.is_some() && self.due_at.is_some()),
            ("ttr", self.ttr.is_some_and(|ttr| !(1..=86_400).contains(&ttr.as_secs()))),
            ("priority", self.priority.is_some_and(|priority| priority > 9)),
            ("backoff", matches!(&self.backoff, Some(Backoff::List(list)) if list.is_empty())),
        ];
        match refused.iter().find(|(_, is_refused)| *is_refused) {
            Some((field, _)) => {
                Err(Problem::field(field, format!("a server refuses the `{field}` of this put")))
            }
            None => Ok(()),
        }
    }
}
