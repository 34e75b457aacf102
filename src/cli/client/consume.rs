//! The commands of consumers: pop, and the ends of an attempt.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    at::duration,
    failure::Failure,
    fields::Held,
    http::{Client, Request},
    put::parse_json,
    query::query,
};
use crate::job::{Millis, Topic};

/// Jobs of an answer.
#[derive(Deserialize)]
pub struct Jobs {
    pub jobs: Vec<Box<RawValue>>,
    pub cursor: Option<String>,
}

impl Jobs {
    pub fn read(answer: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(answer).map_err(|cause| {
            Failure::Unreachable(format!("failed to read the jobs in the answer: {cause}"))
        })
    }
}

/// Pop of ready jobs.
#[derive(Debug, Args, Serialize)]
pub struct Pop {
    /// The topics; earlier topics come first
    #[arg(required = true, value_name = "TOPIC")]
    #[serde(skip)]
    pub topics: Vec<Topic>,
    /// Time to wait for the first job [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Millis>,
    /// Maximum number of jobs [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u16>,
    /// Time that the jobs are held [default: the TTR of each job]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttr: Option<Millis>,
    /// A name that the history of the jobs shows
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
}

impl Pop {
    /// Returns the jobs that are ready; none if the wait ends without one.
    pub async fn send(&self, client: &Client) -> Result<Vec<Box<RawValue>>, Failure> {
        let topics: Vec<String> = self.topics.iter().map(ToString::to_string).collect();
        let path = format!("/topics/{}/pop{}", topics.join(","), query(self));
        let answer = client.send(Request::post(path).wait(self.wait.unwrap_or_default())).await?;
        Ok(Jobs::read(&answer)?.jobs)
    }

    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let jobs = self.send(client).await?;
        if jobs.is_empty() {
            return Err(Failure::NothingToPop);
        }
        client.output.rows(&["id", "topic", "attempt", "reservation", "body"], &jobs)
    }
}

/// Declares the end of an attempt or a touch: its options, and the route that they are sent to.
macro_rules! ends {
    ($(#[$doc:meta])* $name:ident, $route:literal, { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Args, Serialize)]
        pub struct $name {
            #[command(flatten)]
            #[serde(flatten)]
            held: Held,
            $($fields)*
        }

        impl $name {
            pub async fn run(self, client: &Client) -> Result<(), Failure> {
                let path = format!("/jobs/{}/{}", self.held.id, $route);
                client.output.one(&client.send(Request::post(path).json(&self)?).await?)
            }
        }
    };
}

ends! {
    /// Finish of a job.
    Finish, "finish", {
        /// The result to keep, JSON text
        #[arg(long, value_name = "JSON", value_parser = raw)]
        result: Option<Box<RawValue>>,
    }
}

ends! {
    /// Release of a job.
    Release, "release", {
        /// Time until the next attempt [default: the backoff of the job]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        delay: Option<Millis>,
        /// Why the attempt failed
        #[arg(long, value_name = "TEXT")]
        error: Option<String>,
        /// Do not count the attempt
        #[arg(long)]
        #[serde(rename = "count_attempt", serialize_with = "negated")]
        uncounted: bool,
        /// Another body for the next attempt, JSON text
        #[arg(long, value_name = "JSON", value_parser = raw)]
        body: Option<Box<RawValue>>,
    }
}

ends! {
    /// Touch of a job.
    Touch, "touch", {
        /// Time from now that the job is held [default: its TTR]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        ttr: Option<Millis>,
    }
}

ends! {
    /// Bury of a job.
    Bury, "bury", {
        /// Why the job is dead
        #[arg(long, value_name = "TEXT")]
        error: Option<String>,
    }
}

fn negated<S: serde::Serializer>(flag: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(!flag)
}

fn raw(text: &str) -> Result<Box<RawValue>, String> {
    parse_json("it", text).map_err(|failure| failure.to_string())
}
