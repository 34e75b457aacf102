//! `GET /overview`: what a first look needs, over all topics.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::health;
use crate::{
    http::{
        app::App,
        client::identity::Identity,
        extract::input::NoQuery,
        problem::Problem,
        wire::{TopicResponse, json::Json},
    },
    job::{Millis, Topic, UnixMillis},
    queue::{Counters, LastError, LateMinute, Survey},
    store::{Counts, TopicPeek},
};

/// How many topics each list of an overview names.
const TOPICS: usize = 20;

/// What there is, over all topics.
#[derive(Serialize, JsonSchema)]
pub struct Overview {
    /// When counting began: counts are about a second old, or more with thousands of topics.
    as_of: UnixMillis,
    /// Of all topics.
    jobs: Counts,
    /// Ready jobs of topics that are not paused.
    due_not_delivered: u64,
    /// For how many seconds the first of those has been waiting; null without one.
    oldest_ready_age: Option<Millis>,
    /// How many there are.
    topics: usize,
    /// How many of them are paused.
    paused: usize,
    /// The topics with the oldest ready jobs, up to 20.
    oldest_ready: Vec<TopicResponse>,
    /// The topics with the most delayed jobs, up to 20.
    most_delayed: Vec<TopicResponse>,
    /// The topics with the most dead jobs, up to 20.
    most_dead: Vec<TopicResponse>,
    /// From due time to pop, of this server's pops, by the minute of the last hour.
    lateness: Vec<LateMinute>,
    /// The last 20 errors that consumers gave to this server, at most 4 of each topic, the latest
    /// first.
    last_errors: Vec<LastError>,
    /// What this server has counted since it started.
    since_start: Counters,
    /// As `/readyz` tells it.
    store: health::Status,
    /// How many servers work on the store; 0 for a file, null if that is not known.
    servers: Option<u64>,
    /// Of the server.
    version: &'static str,
}

/// A store that is away is a state to be shown, with what was counted before, if that is not too old.
pub async fn overview(
    State(app): State<App>,
    identity: Identity,
    _: NoQuery,
) -> Result<Json<Overview>, Problem> {
    identity.may_everywhere()?;
    let survey = app.queue.survey().await?;
    let store = health::status(&app).await;
    let is_delivered = |topic: &Topic| !app.queue.is_paused(topic);
    let all = survey.topics.values().copied().fold(TopicPeek::default(), TopicPeek::plus);
    let delivered = survey.topics.iter().filter(|(topic, _)| is_delivered(topic));
    let delivered = delivered.map(|(_, peek)| *peek).fold(TopicPeek::default(), TopicPeek::plus);
    let top = |by: fn(&TopicPeek) -> u64| first_topics(&app, &survey, by);
    Ok(Json(Overview {
        as_of: survey.as_of,
        jobs: all.counts,
        due_not_delivered: delivered.counts.ready,
        oldest_ready_age: delivered.oldest_ready_age,
        topics: survey.topics.len(),
        paused: app.queue.paused_topics(),
        // A job that is due this very millisecond has an age of zero, and is ready.
        oldest_ready: top(|peek| peek.oldest_ready_age.map_or(0, |age| age.get() + 1)),
        most_delayed: top(|peek| peek.counts.delayed),
        most_dead: top(|peek| peek.counts.dead),
        lateness: app.queue.lateness(),
        last_errors: app.queue.last_errors(),
        since_start: app.queue.since_start_of_all(),
        store,
        servers: survey.servers,
        version: env!("CARGO_PKG_VERSION"),
    }))
}

/// The topics of which this is most, and not zero.
fn first_topics(app: &App, survey: &Survey, by: fn(&TopicPeek) -> u64) -> Vec<TopicResponse> {
    let mut topics: Vec<_> =
        survey.topics.iter().map(|(topic, peek)| (by(peek), topic, peek)).collect();
    topics.retain(|(value, ..)| *value > 0);
    topics.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let shown = topics.into_iter().take(TOPICS);
    shown
        .map(|(_, topic, peek)| {
            let pause = app.queue.pause_of(topic);
            let since_start = app.queue.since_start(topic);
            TopicResponse::in_list(topic.clone(), peek, pause).counted(since_start)
        })
        .collect()
}
