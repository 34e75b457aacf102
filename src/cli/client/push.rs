//! `push`: the push of a topic.

use clap::{Args, Subcommand};
use hyper::Method;
use serde::Serialize;

use super::{
    at::duration,
    failure::Failure,
    fields::{as_object, backoff, header},
    http::{Client, Request},
};
use crate::job::{Backoff, Millis, Topic};

/// The push of a topic.
#[derive(Debug, Args)]
pub struct Push {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the push and its state
    Get(Target),
    /// Set or replace the push; options that are left out get their defaults, except the secrets
    Set(Set),
    /// Remove the push; the jobs stay
    Delete(Target),
    /// Stop sending
    Pause(Target),
    /// Send again
    Resume(Target),
    /// Send a test request, and print it with its answer
    Test(Target),
}

#[derive(Debug, Args, Serialize)]
struct Target {
    /// The topic
    #[serde(skip)]
    topic: Topic,
}

#[derive(Debug, Args, Serialize)]
struct Set {
    #[command(flatten)]
    #[serde(flatten)]
    target: Target,
    /// The endpoint (http:// or https://)
    #[arg(id = "endpoint", value_name = "ENDPOINT")]
    url: String,
    /// Requests in flight at most, from 1 to 1000 [default: 16]
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u16>,
    /// Jobs per time at most: 100/s, 30/m, 500/h
    #[arg(long, value_name = "RATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    /// Time for an answer [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Millis>,
    /// A secret of signatures, whsec_…; repeat the option while you replace one
    #[arg(long = "secret", value_name = "SECRET")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
    /// A header of each request; repeat the option for further headers
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_object")]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<Batch>,
    /// Waits after failures, for jobs without their own: 5s,5m,30m
    #[arg(long, value_name = "BACKOFF", value_parser = backoff)]
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
}

#[derive(Debug, Args, Serialize)]
struct Batch {
    /// Send up to this number of jobs in one request
    #[arg(long = "batch-max", value_name = "NUMBER", required = false)]
    max: u16,
    /// Time to wait for more jobs of a batch
    #[arg(long = "batch-linger", value_name = "DURATION", value_parser = duration, requires = "max")]
    #[serde(skip_serializing_if = "Option::is_none")]
    linger: Option<Millis>,
}

impl Push {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let path = |target: &Target, act: &str| format!("/topics/{}/push{act}", target.topic);
        let request = match &self.action {
            Action::Get(target) => Request::get(path(target, "")),
            Action::Set(set) => Request::new(Method::PUT, path(&set.target, "")).json(set)?,
            Action::Delete(target) => Request::new(Method::DELETE, path(target, "")),
            Action::Pause(target) => Request::post(path(target, "/pause")),
            Action::Resume(target) => Request::post(path(target, "/resume")),
            Action::Test(target) => Request::post(path(target, "/test")),
        };
        client.output.one(&client.send(request).await?)
    }
}
