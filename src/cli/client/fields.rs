//! Options that several commands have in common, as the API names them.

use clap::Args;
use serde::{Serialize, Serializer};

use super::at::{duration, time};
use crate::job::{Backoff, JobId, Millis, Priority, UnixMillis};

/// Rules of a job, and the defaults of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Rules {
    /// Time that a consumer may hold the job without a touch
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<Millis>,
    /// Attempts until the job is dead; 0 is no limit
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// Waits between attempts: 2m,10m,1h, or JSON such as '{"initial":"1s","max":"1h"}'
    #[arg(long, value_name = "BACKOFF", value_parser = backoff)]
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    /// From 0 to 9; larger is popped first
    #[arg(long, value_name = "NUMBER", value_parser = priority)]
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    /// Time after the due time at which a job that waits becomes dead
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after: Option<Millis>,
    /// Time that the finished job is kept
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_retention: Option<Millis>,
}

/// Filters of the jobs of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Filters {
    /// Only jobs whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
    /// Only jobs whose ids contain this text
    #[arg(long, value_name = "TEXT")]
    id_contains: Option<String>,
    /// Only jobs that died then or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    died_after: Option<UnixMillis>,
    /// Only jobs that died earlier
    #[arg(long, value_name = "TIME", value_parser = time)]
    died_before: Option<UnixMillis>,
    /// Only jobs that are due then or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    due_after: Option<UnixMillis>,
    /// Only jobs that are due earlier
    #[arg(long, value_name = "TIME", value_parser = time)]
    due_before: Option<UnixMillis>,
}

/// A popped job.
#[derive(Debug, Args, Serialize)]
pub struct Held {
    /// The id of the job
    #[serde(skip)]
    pub id: JobId,
    /// The reservation that the pop returned
    #[arg(long, value_name = "RESERVATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
}

/// Reads a list of durations, or the JSON of the API.
pub fn backoff(text: &str) -> Result<Backoff, String> {
    let json = match text.starts_with(['{', '[']) {
        true => serde_json::from_str(text),
        false => {
            let waits: Result<Vec<Millis>, _> =
                text.split(',').map(str::trim).map(duration).collect();
            serde_json::to_value(waits?).and_then(serde_json::from_value)
        }
    };
    json.map_err(|error| error.to_string())
}

fn priority(text: &str) -> Result<Priority, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Reads `name=value`.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Writes headers as an object.
pub fn as_object<S: Serializer>(
    pairs: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
