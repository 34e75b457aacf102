//! The commands about topics.

use clap::{Args, Subcommand};
use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    at::{duration, time},
    failure::Failure,
    fields::Rules,
    http::{Client, Request},
    query::query,
};
use crate::job::{Millis, Topic as Name, UnixMillis};

/// List of topics.
#[derive(Debug, Args, Serialize)]
pub struct List {
    /// Only topics whose names begin with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    #[arg(skip)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    topics: Vec<Box<RawValue>>,
    cursor: Option<String>,
}

impl List {
    pub async fn run(mut self, client: &Client) -> Result<(), Failure> {
        let mut all = Vec::new();
        loop {
            let answer = client.send(Request::get(format!("/topics{}", query(&self)))).await?;
            let page: Page = serde_json::from_slice(&answer).map_err(unreadable)?;
            all.extend(page.topics);
            self.cursor = page.cursor;
            if self.cursor.is_none() {
                break;
            }
        }
        let columns = ["topic", "delayed", "ready", "reserved", "dead", "finished", "paused"];
        client.output.rows(&columns, &all)
    }
}

fn unreadable(cause: serde_json::Error) -> Failure {
    Failure::Unreachable(format!("failed to read the answer: {cause}"))
}

/// A topic, and a change to it.
#[derive(Debug, Args)]
pub struct Topic {
    /// The topic
    #[arg(value_name = "NAME")]
    topic: Name,
    #[command(subcommand)]
    change: Option<Change>,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Set defaults for new jobs; other defaults stay
    Set(Defaults),
}

/// Defaults for new jobs of a topic.
#[derive(Debug, Args, Serialize)]
struct Defaults {
    #[command(flatten)]
    #[serde(flatten)]
    rules: Rules,
    /// Time that a dead job is kept
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_retention: Option<Millis>,
    /// The topic that dead jobs move to
    #[arg(long, value_name = "TOPIC")]
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_to: Option<Name>,
    /// Remove a default: ttr, dead_to, …; repeat the option for further defaults
    #[arg(long, value_name = "NAME")]
    #[serde(skip)]
    unset: Vec<String>,
}

impl Topic {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let path = format!("/topics/{}", self.topic);
        let Some(Change::Set(changed)) = self.change else {
            return client.output.one(&client.send(Request::get(&path)).await?);
        };
        let changes = serde_json::to_value(&changed).map_err(unreadable)?;
        if changes == json!({}) && changed.unset.is_empty() {
            let text = "name a default to set, such as --ttr 5m; --help lists them";
            return Err(Failure::Usage(text.to_owned()));
        }
        let answer = client.send(Request::get(&path)).await?;
        let mut topic: Map<String, Value> = serde_json::from_slice(&answer).map_err(unreadable)?;
        let mut defaults = topic.remove("defaults").unwrap_or_default();
        for (name, value) in changes.as_object().into_iter().flatten() {
            defaults[name] = value.clone();
        }
        for name in changed.unset {
            defaults[name] = Value::Null;
        }
        let request = Request::new(Method::PUT, path).json(&defaults)?;
        client.output.one(&client.send(request).await?)
    }
}

/// Pause of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Pause {
    /// The topic
    #[serde(skip)]
    topic: Name,
    /// Resume by itself after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    span: Option<Millis>,
    /// Resume by itself at this time
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "span")]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<UnixMillis>,
}

impl Pause {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let request = Request::post(format!("/topics/{}/pause", self.topic)).json(&self)?;
        client.output.one(&client.send(request).await?)
    }
}

/// Resume of a topic.
#[derive(Debug, Args)]
pub struct Resume {
    /// The topic
    topic: Name,
}

impl Resume {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let request = Request::post(format!("/topics/{}/resume", self.topic));
        client.output.one(&client.send(request).await?)
    }
}
