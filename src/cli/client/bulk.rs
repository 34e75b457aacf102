//! `kick` and `purge`: they change many jobs, and ask before.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    failure::Failure,
    fields::Filters,
    http::{Client, Request},
    query::query,
};
use crate::job::{JobId, Topic};

/// Jobs of a topic, and the consent to change them.
#[derive(Debug, Args, Serialize)]
struct Selection {
    #[command(flatten)]
    #[serde(flatten)]
    filters: Filters,
    /// Only print the number of jobs
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    #[serde(skip)]
    yes: bool,
}

/// Kick of a job or of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Kick {
    /// The id of the job
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    #[serde(skip)]
    id: Option<JobId>,
    /// Kick the jobs of this topic
    #[arg(long)]
    #[serde(skip)]
    topic: Option<Topic>,
    /// The state of the jobs [default: dead]
    #[arg(long, value_parser = ["dead", "delayed"])]
    state: Option<String>,
    /// Maximum number of jobs [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=MAX_LIMIT))]
    limit: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    selection: Selection,
}

/// Maximum number of jobs of a kick with a limit, as the API allows.
const MAX_LIMIT: u64 = 1_000_000;

impl Kick {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        match (&self.id, &self.topic) {
            (Some(_), _) if !query(&self).is_empty() => Err(Failure::Usage(
                "filters select the jobs of a --topic, not a job by id".to_owned(),
            )),
            (Some(id), _) => {
                let request = Request::post(format!("/jobs/{id}/kick"));
                client.output.one(&client.send(request).await?)
            }
            (None, Some(topic)) => {
                let path = format!("/topics/{topic}/kick");
                let bulk = Bulk {
                    verb: "kick",
                    done: "kicked",
                    method: Method::POST,
                    path,
                    query: query(&self),
                    is_limited: self.limit.is_some(),
                };
                bulk.run(client, &self.selection).await
            }
            (None, None) => Err(Failure::Usage("name a job, or a topic with --topic".to_owned())),
        }
    }
}

/// Purge of a topic.
#[derive(Debug, Args, Serialize)]
pub struct Purge {
    /// The topic
    #[serde(skip)]
    topic: Topic,
    /// Only jobs in this state
    #[arg(long, value_parser = ["delayed", "ready", "reserved", "dead", "finished"])]
    state: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    selection: Selection,
}

impl Purge {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        let path = format!("/topics/{}/jobs", self.topic);
        let bulk = Bulk {
            verb: "purge",
            done: "purged",
            method: Method::DELETE,
            path,
            query: query(&self),
            is_limited: false,
        };
        bulk.run(client, &self.selection).await
    }
}

/// Change of many jobs.
struct Bulk {
    verb: &'static str,
    /// Field of the answer with the number of jobs.
    done: &'static str,
    method: Method,
    path: String,
    query: String,
    /// Whether the query names the number of jobs, so that one request is enough.
    is_limited: bool,
}

#[derive(Deserialize)]
struct Changed {
    #[serde(alias = "kicked", alias = "purged")]
    count: u64,
    more: bool,
}

impl Bulk {
    async fn run(&self, client: &Client, selection: &Selection) -> Result<(), Failure> {
        let query = &self.query;
        if !selection.dry_run && !selection.yes {
            if !io::stdin().is_terminal() {
                let text = format!(
                    "{} needs --yes without a terminal; --dry-run counts the jobs",
                    self.verb
                );
                return Err(Failure::Usage(text));
            }
            let join = if query.is_empty() { '?' } else { '&' };
            let counted = self.send(client, &format!("{query}{join}dry_run=true")).await?;
            let more = if counted.more { "at least " } else { "" };
            if !confirm(&format!("{} {more}{} jobs? [y/N] ", self.verb, counted.count))? {
                return Err(Failure::Reported("nothing was changed".to_owned()));
            }
        }
        let mut total = Changed { count: 0, more: true };
        while total.more {
            let changed = self.send(client, query).await?;
            total = Changed { count: total.count + changed.count, more: changed.more };
            // A filter that finds none of many jobs would find none again.
            if selection.dry_run || self.is_limited || changed.count == 0 {
                break;
            }
        }
        let mut answer = json!({ self.done: total.count, "more": total.more });
        if selection.dry_run {
            answer["dry_run"] = true.into();
        }
        client.output.one(answer.to_string().as_bytes())
    }

    async fn send(&self, client: &Client, query: &str) -> Result<Changed, Failure> {
        let path = format!("{}{query}", self.path);
        let answer = client.send(Request::new(self.method.clone(), path)).await?;
        serde_json::from_slice(&answer)
            .map_err(|cause| Failure::Unreachable(format!("failed to read the answer: {cause}")))
    }
}

/// Asks on the terminal. Returns whether the answer is yes.
fn confirm(question: &str) -> Result<bool, Failure> {
    write!(io::stderr(), "{question}")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
