//! The commands about jobs by id, and lists of jobs.

use clap::Args;
use hyper::Method;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    at::duration,
    consume::Jobs,
    failure::Failure,
    fields::Filters,
    http::{Client, Request},
    query::query,
    show::Form,
};
use crate::job::{JobId, Millis, Topic};

/// Delete of a job.
#[derive(Debug, Args, Serialize)]
pub struct Delete {
    /// The id of the job
    #[serde(skip)]
    id: JobId,
    /// Only if the job is in one of these states: delayed,ready
    #[arg(long, value_name = "STATES")]
    state: Option<String>,
    /// Time that the id stays taken
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    remember: Option<Millis>,
}

impl Delete {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let path = format!("/jobs/{}{}", self.id, query(&self));
        client.output.one(&client.send(Request::new(Method::DELETE, path)).await?)
    }
}

/// List of the jobs of a topic.
#[derive(Debug, Args)]
pub struct List {
    /// The topic
    topic: Topic,
    /// The state of the jobs
    #[arg(long, value_parser = ["delayed", "ready", "reserved", "dead", "finished"])]
    state: String,
    /// Maximum number of jobs
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Serialize)]
struct Page<'a> {
    state: &'a str,
    limit: u64,
    cursor: Option<String>,
    #[serde(flatten)]
    filters: &'a Filters,
}

/// Maximum number of jobs of a page, as the API allows.
const MAX_PAGE: u64 = 1_000;
/// Fields of a job in a table.
const COLUMNS: [&str; 5] = ["id", "state", "due_at", "attempt", "error"];

impl List {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let print = |jobs: &[_]| client.output.rows(&COLUMNS, jobs);
        let mut rows: Vec<Box<RawValue>> = Vec::new();
        let (mut left, mut cursor) = (self.limit, None);
        while left > 0 {
            let limit = left.min(MAX_PAGE);
            let page = Page { state: &self.state, limit, cursor, filters: &self.filters };
            let path = format!("/topics/{}/jobs{}", self.topic, query(&page));
            let answer = Jobs::read(&client.send(Request::get(path)).await?)?;
            left = left.saturating_sub(answer.jobs.len() as u64);
            match client.output.form {
                Form::Jsonl => print(&answer.jobs)?,
                Form::Json | Form::Table => rows.extend(answer.jobs),
            }
            cursor = answer.cursor;
            if cursor.is_none() {
                break;
            }
        }
        if client.output.form == Form::Jsonl { Ok(()) } else { print(&rows) }
    }
}
