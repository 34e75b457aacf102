//! `get`: one job, once or until it ends.

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{
    at::duration,
    away::Away,
    failure::{Failure, complain},
    http::{Client, Request},
    query::query,
    show::{Form, print},
};
use crate::job::{JobId, Millis};

/// Time that a request of a watch waits for the end of the job. Other changes are seen after it.
const WATCH_WAIT: Millis = Millis::new(1_000);

/// Get of a job.
#[derive(Debug, Args, Serialize)]
pub struct Get {
    /// The id of the job
    #[serde(skip)]
    id: JobId,
    /// Time to wait until the job is finished, dead or gone; at most 60s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Millis>,
    /// Print the job at each change until it is finished, dead or gone
    #[arg(long, conflicts_with = "wait")]
    #[serde(skip)]
    watch: bool,
}

/// State of a job, as far as a watch compares it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Seen {
    topic: String,
    state: String,
    due_at: Option<String>,
    attempt: u64,
    error: Option<String>,
}

impl Get {
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        if self.watch {
            return self.watch(client).await;
        }
        let path = format!("/jobs/{}{}", self.id, query(&self));
        let request = Request::get(path).wait(self.wait.unwrap_or_default());
        client.output.one(&client.send(request).await?)
    }

    /// Prints the job at each change. Waits while the server is unavailable.
    async fn watch(&self, client: &Client) -> Result<(), Failure> {
        let path = format!("/jobs/{}", self.id);
        let mut answer = client.send(Request::get(&path)).await?;
        let (away, mut last) = (Away::default(), None);
        loop {
            let seen: Seen = serde_json::from_slice(&answer).map_err(|cause| {
                Failure::Unreachable(format!("failed to read the job in the answer: {cause}"))
            })?;
            if last.as_ref() != Some(&seen) {
                match client.output.form {
                    Form::Table => print(seen.line())?,
                    _ => client.output.one(&answer)?,
                }
            }
            if matches!(seen.state.as_str(), "finished" | "dead") {
                return Ok(());
            }
            last = Some(seen);
            let mut pauses = away.pauses();
            answer = loop {
                let path = format!("{path}?wait={}ms", WATCH_WAIT.get());
                match client.send(Request::get(path).wait(WATCH_WAIT)).await {
                    Ok(answer) => break answer,
                    Err(Failure::Refused(problem)) if problem.status == 404 => {
                        complain("the job is gone: it was finished or deleted, or was not kept");
                        return Ok(());
                    }
                    Err(failure) if failure.is_temporary() => sleep(pauses.next(&failure)).await,
                    Err(failure) => return Err(failure),
                }
            };
            away.is_back();
        }
    }
}

impl Seen {
    /// Returns the job on one line for people.
    fn line(&self) -> String {
        let Self { topic, state, due_at, attempt, error } = self;
        let due = due_at.as_ref().map_or(String::new(), |due| format!("  due {due}"));
        let error = error.as_ref().map_or(String::new(), |error| format!("  {error}"));
        format!("{topic}  {state:8}  attempt {attempt}{due}{error}").replace(char::is_control, " ")
    }
}
