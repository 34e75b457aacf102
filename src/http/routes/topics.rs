//! Routes of whole topics.

use axum::{extract::State, http::Uri, response::Response};

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        edge::log::AuditDetail,
        extract::{
            content::Content,
            cursor::Cursor,
            input::{NoQuery, PathTopic},
            parse::{no_body, parse, parse_or_default},
            query::Query,
        },
        problem::Problem,
        wire::{
            DueCounts, JobResponse, JobsPage, PauseTopic, Paused, PutTopic, TopicResponse,
            TopicsPage, json::Json,
        },
    },
    job::{Bucket, Job, Millis, Topic, TopicPattern, Topics},
    queue::{ErrorGroups, Listed, Position},
    store::{Clock, JobRange, Steps, StoreError, TopicPage, TopicPeek},
};

/// Maximum number of topics, and most jobs, per page.
pub const MAX_TOPICS: u64 = 1000;
pub const MAX_JOBS: u64 = 1000;
/// Most errors of dead jobs in an answer.
pub const MAX_ERRORS: u64 = 100;
/// Maximum number of steps of one count of due jobs; number of steps and time span if the request
/// gives none.
pub const MAX_DUE_STEPS: u64 = 500;
const DUE_STEPS: u64 = 60;
const DUE_SPAN: Millis = Millis::new(3_600_000);

pub async fn list(
    State(app): State<App>,
    identity: Identity,
    uri: Uri,
) -> Result<Json<TopicsPage>, Problem> {
    let mut query = Query::new(&uri);
    let prefix = query.text("prefix")?.unwrap_or_default();
    let limit = query.limit(100, MAX_TOPICS)?;
    let after = query.text("cursor")?.map(|text| {
        text.parse::<Topic>()
            .map_err(|_| Problem::field("cursor", "must be the `cursor` of an earlier page"))
    });
    let after = after.transpose()?;
    query.reject_unknown()?;
    if !prefix.is_empty() {
        prefix.parse::<Topic>().map_err(|error| Problem::field("prefix", error.to_string()))?;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let readable = identity.topics()?;
    let (topics, more) =
        readable_topics(&app, TopicPage { prefix, after, limit }, &readable).await?;
    let last = topics.last().map(|(topic, _)| topic.clone());
    let cursor = last.filter(|_| more);
    let topics = topics.into_iter().map(|(topic, peek)| {
        let (pause, push) = (app.queue.pause_of(&topic), app.queue.push_of(&topic));
        TopicResponse::in_list(topic, &peek, pause).with_push(push.map(|_| true))
    });
    Ok(Json(TopicsPage { topics: topics.collect(), cursor }))
}

/// Returns a page of the readable topics. Reads one page of the store for each pattern of the
/// token, so that unreadable topics leave no gaps and do not appear in the cursor.
async fn readable_topics(
    app: &App,
    page: TopicPage,
    readable: &Topics,
) -> Result<(Vec<(Topic, TopicPeek)>, bool), Problem> {
    let Some(patterns) = readable.patterns() else { return Ok(app.queue.topics(page).await?) };
    // Without patterns that another one covers, the topics of all patterns are in order.
    let is_covered = |one: &TopicPattern| {
        let covers = |other: &TopicPattern| {
            other != one && other.prefix().is_some_and(|prefix| one.as_str().starts_with(prefix))
        };
        patterns.iter().any(covers)
    };
    let (mut found, mut more) = (Vec::new(), false);
    for pattern in patterns.iter().filter(|one| !is_covered(one)) {
        let start = pattern.prefix().unwrap_or(pattern.as_str());
        let prefix = match pattern.prefix() {
            _ if start.starts_with(&page.prefix) => start,
            Some(_) if page.prefix.starts_with(start) => &page.prefix,
            _ => continue,
        };
        if found.len() == page.limit {
            return Ok((found, true));
        }
        let limit = if pattern.prefix().is_some() { page.limit - found.len() } else { 1 };
        let part = TopicPage { prefix: prefix.to_owned(), limit, ..page.clone() };
        let (topics, rest) = app.queue.topics(part).await?;
        more |= rest && pattern.prefix().is_some();
        found.extend(topics.into_iter().filter(|(topic, _)| pattern.allows(topic)));
    }
    Ok((found, more))
}

pub async fn get(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Json<TopicResponse>, Problem> {
    identity.may(&topic)?;
    Query::new(&uri).reject_unknown()?;
    let peek = app.queue.topic(&topic).await?;
    Ok(shown(&app, topic, &peek))
}

fn shown(app: &App, topic: Topic, peek: &TopicPeek) -> Json<TopicResponse> {
    let (pause, defaults) = (app.queue.pause_of(&topic), app.queue.defaults(&topic));
    let since_start = app.queue.since_start(&topic);
    let push = Some(app.queue.push_of(&topic).is_some());
    let shown = TopicResponse::in_list(topic, peek, pause).with_push(push).counted(since_start);
    Json(shown.with_defaults(defaults))
}

pub async fn put(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<TopicResponse>), Problem> {
    identity.may(&topic)?;
    let defaults = parse::<PutTopic>(&content, "")?.valid(&topic, app.queue.is_paused(&topic))?;
    if let Some(target) = &defaults.dead_to {
        identity.may_put(target, "dead_to")?;
    }
    let detail = AuditDetail(serde_json::to_string(&defaults).unwrap_or_default());
    if !app.queue.set_defaults(topic.clone(), defaults).await? {
        let detail =
            "leads back to this topic, by the `dead_to` of that topic and of those behind it";
        return Err(Problem::field("dead_to", detail));
    }
    // The defaults are set, even if reading them back fails.
    let peek = app.queue.topic(&topic).await.map_err(StoreError::of_part)?;
    Ok((detail, shown(&app, topic, &peek)))
}

/// Pauses a topic, for a limited time if the body says so.
pub async fn pause(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<Paused>), Problem> {
    identity.may(&topic)?;
    let (detail, paused_until) = match parse_or_default::<PauseTopic>(&content)?.valid()? {
        Some(span) => {
            let until = app.queue.pause_for(topic.clone(), span).await?;
            (format!("paused until {until}"), Some(until))
        }
        None => {
            app.queue.set_paused(topic.clone(), true).await?;
            ("paused".to_owned(), None)
        }
    };
    Ok((AuditDetail(detail), Json(Paused { topic, paused: true, paused_until })))
}

pub async fn resume(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<Paused>), Problem> {
    identity.may(&topic)?;
    no_body(&content)?;
    app.queue.set_paused(topic.clone(), false).await?;
    Ok((
        AuditDetail("resumed".to_owned()),
        Json(Paused { topic, paused: false, paused_until: None }),
    ))
}

pub async fn jobs(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Response, Problem> {
    identity.may(&topic)?;
    let (cursor, from, range) = jobs_range(&uri, &topic, |index| app.queue.bucket(index))?;
    let _turn = app.memory.page().await?;
    let Listed { jobs, damaged, next } = app.queue.list(&topic, cursor.state, from, &range).await?;
    let shown = |job: Job| JobResponse::from(job).without_history();
    let jobs = jobs.into_iter().map(shown).collect();
    let cursor = next.map(|position| cursor.text(&position));
    app.memory.answer(&JobsPage { jobs, damaged, cursor })
}

/// Parses the query for a list of jobs: the list with its cursors, the start and the range.
pub fn jobs_range<'a>(
    uri: &Uri,
    topic: &'a Topic,
    bucket: impl Fn(usize) -> Option<Bucket>,
) -> Result<(Cursor<'a>, Option<Position>, JobRange), Problem> {
    let mut query = Query::new(uri);
    let state = query.state()?.ok_or_else(|| {
        Problem::field("state", "is missing: one of delayed, ready, reserved, dead, finished")
    })?;
    let limit = query.limit(20, MAX_JOBS)?;
    let filter = query.filter(Some(state))?;
    let from = query.text("cursor")?;
    query.reject_unknown()?;
    let cursor = Cursor { topic, state, filter: filter.clone() };
    let from = from.map(|text| cursor.parse(&text, bucket)).transpose()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok((cursor, from, JobRange { filter, after: None, limit }))
}

/// Groups the dead jobs by their error.
pub async fn errors(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Json<ErrorGroups>, Problem> {
    identity.may(&topic)?;
    let mut query = Query::new(&uri);
    let limit = query.limit(20, MAX_ERRORS)?;
    query.reject_unknown()?;
    let _running = app.memory.count().await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Json(app.queue.dead_errors(&topic, limit).await?))
}

/// Counts the delayed jobs that become due in each step of time.
pub async fn due(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    uri: Uri,
) -> Result<Json<DueCounts>, Problem> {
    identity.may(&topic)?;
    let steps = due_steps(&uri)?;
    let counts = app.queue.due_counts(&topic, steps).await?;
    Ok(Json(DueCounts { from: steps.from, step: steps.step, counts }))
}

/// Parses the steps of a query.
pub fn due_steps(uri: &Uri) -> Result<Steps, Problem> {
    let mut query = Query::new(uri);
    let (from, until) = (query.time("from")?, query.time("until")?);
    let step = query.duration("step")?;
    query.reject_unknown()?;
    let from = from.unwrap_or_else(|| Clock::Own.now().floor);
    let until = until.unwrap_or(from.after(DUE_SPAN));
    if until <= from {
        return Err(Problem::field("until", "must be later than `from`"));
    }
    let span = until.since(from).get();
    let step = step.unwrap_or(Millis::new(span.div_ceil(DUE_STEPS)));
    if step == Millis::ZERO {
        return Err(Problem::field("step", "must be longer than 0"));
    }
    let count = span.div_ceil(step.get());
    if count > MAX_DUE_STEPS {
        let detail = format!(
            "must divide the time from `from` to `until` into at most {MAX_DUE_STEPS} steps, got {count}"
        );
        return Err(Problem::field("step", detail));
    }
    Ok(Steps { from, step, count: usize::try_from(count).unwrap_or(usize::MAX) })
}
