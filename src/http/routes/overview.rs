//! `GET /overview`: the dashboard's summary of all topics.

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
        wire::{TargetResponse, TopicResponse, json::Json},
    },
    job::{Millis, Topic, UnixMillis},
    push::BreakerState,
    queue::{Counters, LastError, LateMinute, Survey},
    store::{Counts, TopicPeek},
};

/// Maximum number of topics in each list of an overview.
const TOPICS: usize = 20;
/// Maximum number of targets in an overview.
const TARGETS: usize = 100;

/// Summary of all topics.
#[derive(Serialize, JsonSchema)]
pub struct Overview {
    /// When the count began: counts are about a second old, or more with thousands of topics.
    as_of: UnixMillis,
    /// Jobs of all topics, by state.
    jobs: Counts,
    /// Ready jobs of topics that are not paused.
    due_not_delivered: u64,
    /// Age in seconds of the oldest of these jobs, from its due time; null if there is none.
    oldest_ready_age: Option<Millis>,
    /// Number of topics.
    topics: usize,
    /// Number of paused topics.
    paused: usize,
    /// The topics with the oldest ready jobs, up to 20.
    oldest_ready: Vec<TopicResponse>,
    /// The topics with the most delayed jobs, up to 20.
    most_delayed: Vec<TopicResponse>,
    /// The topics with the most dead jobs, up to 20.
    most_dead: Vec<TopicResponse>,
    /// Time from due time to pop, for pops on this server, per minute of the last hour.
    lateness: Vec<LateMinute>,
    /// The last 20 errors that consumers gave to this server, at most 4 per topic, latest first.
    last_errors: Vec<LastError>,
    /// Targets of pushes, as this server knows them, failing ones first, up to 100.
    pushes: Vec<TargetResponse>,
    /// Counters of this server since it started.
    since_start: Counters,
    /// Readiness, as `/readyz` reports it.
    store: health::Status,
    /// Number of servers on the store; 0 for a file, null if unknown.
    servers: Option<u64>,
    /// Version of the server.
    version: &'static str,
}

/// Answers even if the store is unavailable, with earlier counts unless they are too old.
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
        // A job that is due in this millisecond is ready at age 0, so 0 must not mean none.
        oldest_ready: top(|peek| peek.oldest_ready_age.map_or(0, |age| age.get() + 1)),
        most_delayed: top(|peek| peek.counts.delayed),
        most_dead: top(|peek| peek.counts.dead),
        lateness: app.queue.lateness(),
        last_errors: app.queue.last_errors(),
        pushes: targets(&app),
        since_start: app.queue.since_start_of_all(),
        store,
        servers: survey.servers,
        version: env!("CARGO_PKG_VERSION"),
    }))
}

/// Returns the targets of pushes. The caller may read all topics, so none is left out.
fn targets(app: &App) -> Vec<TargetResponse> {
    let mut targets = app.pushes.targets();
    let is_well = |state| state == BreakerState::Closed;
    targets.sort_by(|a, b| {
        is_well(a.state).cmp(&is_well(b.state)).then_with(|| a.target.cmp(&b.target))
    });
    let shown = targets.into_iter().take(TARGETS);
    shown.map(|health| TargetResponse::new(health, TOPICS)).collect()
}

/// Returns the topics with the largest value of `by`; leaves out topics whose value is zero.
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
            let push = app.queue.push_of(topic).map(|_| true);
            let shown = TopicResponse::in_list(topic.clone(), peek, pause).with_push(push);
            shown.counted(since_start)
        })
        .collect()
}
