//! Samples: the state of a server as its API describes it.

use std::time::Instant;

use bytes::Bytes;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    cli::client::{
        failure::Failure,
        http::{Client, Request},
    },
    job::UnixMillis,
};

/// Seconds of a step of the due jobs.
pub const DUE_STEP: u64 = 10;
/// Number of topics, by their names, that are shown beside those of the overview.
const FIRST_TOPICS: usize = 100;
/// Number of steps of the due jobs.
const DUE_STEPS: u64 = 60;

/// State of a server at one moment.
#[derive(Debug)]
pub struct Sample {
    pub at: Instant,
    /// `None` if the token may not read all topics.
    pub overview: Option<Overview>,
    pub topics: Vec<Topic>,
    /// Jobs that fall due in each step; empty without a topic.
    pub due: Vec<u64>,
}

/// Summary over all topics.
#[derive(Debug, Default, Deserialize)]
pub struct Overview {
    pub as_of: String,
    pub jobs: Counts,
    pub due_not_delivered: u64,
    pub oldest_ready_age: Option<f64>,
    #[serde(default)]
    lateness: Vec<Minute>,
    #[serde(default)]
    pub last_errors: Vec<LastError>,
    pub since_start: Totals,
    pub store: StoreState,
    pub version: String,
    oldest_ready: Vec<Topic>,
    most_delayed: Vec<Topic>,
    most_dead: Vec<Topic>,
}

/// Jobs by state.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub struct Counts {
    pub delayed: u64,
    pub ready: u64,
    pub reserved: u64,
    pub dead: u64,
    pub finished: u64,
}

/// Numbers since the start of the server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Totals {
    pub put: u64,
    pub popped: u64,
    pub finished: u64,
    pub dead: u64,
}

/// Time from the due time to the pop over a minute, in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Minute {
    at: UnixMillis,
    popped: u64,
    pub p50: f64,
    pub p99: f64,
}

/// Error of a job.
#[derive(Debug, Deserialize)]
pub struct LastError {
    pub topic: String,
    pub error: String,
}

/// State of the store.
#[derive(Debug, Default, Deserialize)]
pub struct StoreState {
    pub status: String,
}

/// A topic.
#[derive(Debug, Clone, Deserialize)]
pub struct Topic {
    pub topic: String,
    #[serde(flatten)]
    pub counts: Counts,
    pub paused: bool,
    pub next_due_at: Option<String>,
    pub oldest_ready_age: Option<f64>,
    pub since_start: Option<Totals>,
}

#[derive(Deserialize)]
struct Page {
    topics: Vec<Topic>,
}

#[derive(Deserialize)]
struct Due {
    counts: Vec<u64>,
}

impl Sample {
    /// Reads the state of a server, and what is due of a topic.
    ///
    /// # Errors
    /// The server is unavailable, or the token may read nothing.
    pub async fn read(client: &Client, topic: Option<&str>) -> Result<Self, Failure> {
        let overview = match client.send(Request::get("/overview")).await {
            Ok(answer) => Some(parse::<Overview>(&answer)?),
            Err(Failure::NotAllowed(problem)) if problem.status == 403 => None,
            Err(failure) => return Err(failure),
        };
        let page = client.send(Request::get(format!("/topics?limit={FIRST_TOPICS}"))).await;
        let page = match page {
            // Unlike the list of topics, the overview needs no store.
            Err(_) if overview.is_some() => Vec::new(),
            page => parse::<Page>(&page?)?.topics,
        };
        let topics = by_name(overview.as_ref(), page);
        let due = match topic {
            Some(topic) => due(client, topic).await?,
            None => Vec::new(),
        };
        Ok(Self { at: Instant::now(), overview, topics, due })
    }
}

impl Overview {
    /// Returns the listed topics; a topic may be in several lists.
    fn topics(&self) -> impl Iterator<Item = &Topic> {
        [&self.oldest_ready, &self.most_delayed, &self.most_dead].into_iter().flatten()
    }

    /// Returns the lateness of the latest minute with pops: the present one, or the one before.
    pub fn lateness(&self) -> Option<Minute> {
        let now = self.now()?;
        let is_recent = |of: &&Minute| of.popped > 0 && now.since(of.at).get() < 120_000;
        self.lateness.iter().rev().find(is_recent).copied()
    }

    /// Returns the time of the counts.
    pub fn now(&self) -> Option<UnixMillis> {
        UnixMillis::from_query(&self.as_of).ok()
    }
}

/// Returns topics once, by name. Those of the overview come first, because only they have totals.
fn by_name(overview: Option<&Overview>, page: Vec<Topic>) -> Vec<Topic> {
    let of_overview = overview.into_iter().flat_map(Overview::topics).cloned();
    let mut topics: Vec<Topic> = of_overview.chain(page).collect();
    topics.sort_by(|a, b| a.topic.cmp(&b.topic));
    topics.dedup_by(|a, b| a.topic == b.topic);
    topics
}

async fn due(client: &Client, topic: &str) -> Result<Vec<u64>, Failure> {
    let path = format!("/topics/{topic}/due?step={DUE_STEP}s");
    let answer = match client.send(Request::get(path)).await {
        // The topic may have gone since the last sample.
        Err(Failure::Refused(problem)) if problem.status == 404 => return Ok(Vec::new()),
        answer => answer?,
    };
    let mut counts = parse::<Due>(&answer)?.counts;
    counts.truncate(usize::try_from(DUE_STEPS).unwrap_or(usize::MAX));
    Ok(counts)
}

fn parse<T: DeserializeOwned>(answer: &Bytes) -> Result<T, Failure> {
    serde_json::from_slice(answer)
        .map_err(|cause| Failure::Unreachable(format!("failed to read the answer: {cause}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_topic_of_the_overview_keeps_its_totals() {
        let topic = |name: &str, since_start: Value| {
            json!({
                "topic": name, "delayed": 1, "ready": 0, "reserved": 0, "dead": 0, "finished": 0,
                "paused": false, "next_due_at": null, "oldest_ready_age": null,
                "since_start": since_start,
            })
        };
        let totals = json!({"put": 7, "popped": 0, "finished": 0, "dead": 0});
        let overview = json!({
            "as_of": "", "jobs": {"delayed": 2, "ready": 0, "reserved": 0, "dead": 0, "finished": 0},
            "due_not_delivered": 0, "oldest_ready_age": null, "since_start": totals,
            "store": {"status": "ok"}, "version": "1", "oldest_ready": [],
            "most_delayed": [topic("b", totals.clone())], "most_dead": [topic("b", totals)],
        });
        let overview: Overview = serde_json::from_value(overview).expect("an overview");
        let page = ["a", "b"].map(|name| serde_json::from_value(topic(name, Value::Null)));
        let page = page.into_iter().map(|topic| topic.expect("a topic")).collect();
        let topics = by_name(Some(&overview), page);
        let shown = topics.iter().map(|topic| (&*topic.topic, topic.since_start.map(|s| s.put)));
        assert_eq!(shown.collect::<Vec<_>>(), [("a", None), ("b", Some(7))]);
    }
}
