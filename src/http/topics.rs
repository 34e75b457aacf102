//! The routes of topics as a whole.

use axum::{extract::State, http::Uri, response::Response};

use super::{
    App,
    content::Content,
    cursor::Cursor,
    input::{NoQuery, PathTopic},
    json::Json,
    log::Did,
    parse::{nothing, parse},
    problem::Problem,
    query::Query,
    wire::{JobsPage, Kicked, Paused, Purged, PutTopic, TopicResponse, TopicsPage},
};
use crate::{
    job::Topic,
    queue::Listed,
    store::{Applied, TopicPage},
};

/// Most topics, and most jobs, of one page.
const MAX_TOPICS: u64 = 1000;
const MAX_JOBS: u64 = 1000;
/// Most jobs that one kick moves.
const MAX_KICK: u64 = 1_000_000;

pub async fn list(State(app): State<App>, uri: Uri) -> Result<Json<TopicsPage>, Problem> {
    let mut query = Query::new(&uri);
    let prefix = query.text("prefix")?.unwrap_or_default();
    let limit = query.limit(100, MAX_TOPICS)?;
    let after = query.text("cursor")?.map(|text| {
        text.parse::<Topic>().map_err(|_| Problem::field("cursor", "must be one that a page gave"))
    });
    let after = after.transpose()?;
    query.reject_unknown()?;
    if !prefix.is_empty() {
        prefix.parse::<Topic>().map_err(|error| Problem::field("prefix", error.to_string()))?;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (topics, more) = app.queue.topics(TopicPage { prefix, after, limit }).await?;
    let last = topics.last().map(|(topic, _)| topic.clone());
    let cursor = last.filter(|_| more);
    let topics = topics.into_iter().map(|(topic, counts)| {
        let paused = app.queue.is_paused(&topic);
        TopicResponse::new(topic, counts, paused)
    });
    Ok(Json(TopicsPage { topics: topics.collect(), cursor }))
}

pub async fn get(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Json<TopicResponse>, Problem> {
    Query::new(&uri).reject_unknown()?;
    shown(&app, topic).await
}

async fn shown(app: &App, topic: Topic) -> Result<Json<TopicResponse>, Problem> {
    let look = app.queue.topic(&topic).await?;
    let (paused, defaults) = (app.queue.is_paused(&topic), app.queue.defaults(&topic));
    let since_start = app.queue.since_start(&topic);
    Ok(Json(TopicResponse::in_full(topic, &look, paused, (defaults, since_start))))
}

pub async fn put(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(Did, Json<TopicResponse>), Problem> {
    let defaults = parse::<PutTopic>(&content, "")?.valid(&topic, app.queue.is_paused(&topic))?;
    let did = Did(serde_json::to_string(&defaults).unwrap_or_default());
    app.queue.set_defaults(topic.clone(), defaults).await?;
    // They are set, even if the look that shows them fails.
    let unsure = |problem| Problem { applied: Applied::Unknown, ..problem };
    Ok((did, shown(&app, topic).await.map_err(unsure)?))
}

pub async fn pause(
    state: State<App>,
    topic: PathTopic,
    query: NoQuery,
    content: Content,
) -> Result<(Did, Json<Paused>), Problem> {
    set_paused(state, topic, query, content, true).await
}

pub async fn resume(
    state: State<App>,
    topic: PathTopic,
    query: NoQuery,
    content: Content,
) -> Result<(Did, Json<Paused>), Problem> {
    set_paused(state, topic, query, content, false).await
}

async fn set_paused(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
    paused: bool,
) -> Result<(Did, Json<Paused>), Problem> {
    nothing(&content)?;
    app.queue.set_paused(topic.clone(), paused).await?;
    let did = Did(if paused { "paused" } else { "resumed" }.to_owned());
    Ok((did, Json(Paused { topic, paused })))
}

pub async fn jobs(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::new(&uri);
    let state = query.state()?.ok_or_else(|| {
        Problem::field("state", "is missing: one of delayed, ready, reserved, dead")
    })?;
    let limit = query.limit(20, MAX_JOBS)?;
    let from = query.text("cursor")?;
    query.reject_unknown()?;
    let cursor = Cursor { topic: &topic, state };
    let from = from.map(|text| cursor.parse(&text, &app.queue)).transpose()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let _turn = app.memory.page().await?;
    let Listed { jobs, damaged, next } = app.queue.list(&topic, state, from, limit).await?;
    let jobs = jobs.into_iter().map(Into::into).collect();
    let cursor = next.map(|position| cursor.text(&position));
    app.memory.answer(&JobsPage { jobs, damaged, cursor })
}

pub async fn purge(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    uri: Uri,
    Content(content): Content,
) -> Result<(Did, Json<Purged>), Problem> {
    let mut query = Query::new(&uri);
    let state = query.state()?;
    query.reject_unknown()?;
    nothing(&content)?;
    let purged = app.queue.purge(&topic, state).await?;
    Ok((Did(format!("{purged} jobs purged")), Json(Purged { purged })))
}

pub async fn kick(
    State(app): State<App>,
    PathTopic(topic): PathTopic,
    uri: Uri,
    Content(content): Content,
) -> Result<(Did, Json<Kicked>), Problem> {
    let mut query = Query::new(&uri);
    let limit = query.limit(1000, MAX_KICK)?;
    query.reject_unknown()?;
    nothing(&content)?;
    let kicked = app.queue.kick_topic(&topic, limit).await?;
    Ok((Did(format!("{kicked} jobs kicked")), Json(Kicked { kicked })))
}
