//! The command that counts dead jobs by their error.

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    failure::Failure,
    http::{Client, Request},
    query::query,
};
use crate::job::Topic;

/// Errors of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Errors {
    /// The topic
    #[serde(skip)]
    topic: Topic,
    /// Maximum number of errors
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = value_parser!(u64).range(1..=100))]
    limit: u64,
}

#[derive(Deserialize)]
struct Answer {
    errors: Vec<Box<RawValue>>,
    examined: u64,
    more: bool,
}

impl Errors {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let path = format!("/topics/{}/errors{}", self.topic, query(&self));
        let answer: Answer = serde_json::from_slice(&client.send(Request::get(path)).await?)
            .map_err(|cause| Failure::Unreachable(format!("failed to read the answer: {cause}")))?;
        client.output.rows(&["count", "example", "error"], &answer.errors)?;
        if answer.more {
            let examined = answer.examined;
            eprintln!("examined {examined} dead jobs; there are further errors or jobs");
        }
        Ok(())
    }
}
