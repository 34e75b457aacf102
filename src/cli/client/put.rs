//! `put`: one job from the arguments, or many from lines of JSON.

mod jsonl;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{
    at::{duration, time},
    failure::Failure,
    fields::{Rules, as_object, header},
    http::{Client, Request},
};
use crate::job::{JobId, Millis, Topic, TraceParent, UnixMillis};

/// Jobs to be put.
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    job: Job,

    /// The body, JSON text; - reads standard input [default: null]
    #[arg(value_name = "BODY", allow_negative_numbers = true)]
    body: Option<String>,

    /// Read the body from this file
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,

    #[command(flatten)]
    lines: jsonl::Lines,
}

/// Fields of a put as the API names them.
#[derive(Debug, Args, Serialize)]
struct Job {
    /// The topic
    #[arg(value_name = "TOPIC", required_unless_present = "jsonl")]
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// Your own id for the job, unique in the store [default: a number from the server]
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    /// Time until the job is due: 30, 90s, 1h30m, 7d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Millis>,
    /// When the job is due: RFC 3339, or '2026-12-24 18:00 Europe/Berlin'
    #[arg(long = "at", value_name = "TIME", value_parser = time, conflicts_with = "delay")]
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<UnixMillis>,
    /// Behaviour if the id is in use
    #[arg(long, value_parser = ["reject", "keep", "replace"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<String>,
    /// A header for the consumer; repeat the option for further headers
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_object")]
    headers: Vec<(String, String)>,
    /// Context of a distributed trace (W3C Trace Context)
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
    #[command(flatten)]
    #[serde(flatten)]
    rules: Rules,
}

#[derive(Serialize)]
struct WithBody<'a> {
    #[serde(flatten)]
    job: &'a Job,
    body: Box<RawValue>,
}

impl Put {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        if let Some(source) = self.lines.source() {
            let has_job = serde_json::to_value(&self.job).is_ok_and(|job| job != json!({}));
            if has_job || self.body.is_some() || self.body_file.is_some() {
                let text = "--jsonl reads whole jobs: move the topic, the body and the options into the lines";
                return Err(Failure::Usage(text.to_owned()));
            }
            return jsonl::put(client, source, self.lines.keep_going).await;
        }
        let body = match (&self.body, &self.body_file) {
            (None, None) => "null".to_owned(),
            (Some(dash), _) if dash == "-" => read(Path::new("-"))?,
            (Some(text), _) => text.clone(),
            (None, Some(file)) => read(file)?,
        };
        let job = WithBody { job: &self.job, body: parse_json("the body", &body)? };
        let answer = client.send(Request::post("/jobs").json(&job)?).await;
        client.output.one(&answer.map_err(|failure| failure.of_put(self.job.id.as_ref()))?)
    }
}

/// Reads a file, or standard input for `-`.
pub fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match file == Path::new("-") {
        true => io::stdin().read_to_string(&mut text).map(|_| text),
        false => fs::read_to_string(file),
    };
    result.map_err(|cause| Failure::Usage(format!("failed to read {}: {cause}", file.display())))
}

/// Checks JSON text from the command line, and advises how to quote text.
pub fn parse_json(name: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text.trim()).map_err(|cause| {
        let quoted = match to_raw_value(text.trim()) {
            Ok(quoted) if text.len() <= 40 && !text.contains('\'') => quoted.get().to_owned(),
            _ => "\"text\"".to_owned(),
        };
        Failure::Usage(format!(
            "{name} must be JSON ({cause}); write text as '{quoted}', in both kinds of quotes"
        ))
    })
}
