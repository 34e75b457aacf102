//! Routes of schedules.

use axum::{
    extract::State,
    http::{HeaderName, StatusCode, Uri, header::LOCATION},
};

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        edge::log::AuditDetail,
        extract::{
            content::Content,
            input::{NoQuery, PathSchedule},
            parse::{no_body, parse},
            query::Query,
        },
        limits::quotas::Caller,
        problem::{Code, Problem},
        wire::{
            Hidden, PreviewResponse, PreviewSchedule, PutSchedule, ScheduleResponse, SchedulesPage,
            TransitionResponse, json::Json,
        },
    },
    job::{ScheduleName, Topic, UnixMillis},
    schedules::{Definition, Record, ScheduleError, Shown},
    store::SchedulePage,
};

/// Maximum number of schedules per page.
pub const MAX_SCHEDULES: u64 = 1000;
/// Maximum number of schedules that a page examines.
const MAX_EXAMINED: usize = 10_000;
/// Maximum number of schedules that are read at once.
const MAX_READ: usize = 1000;

pub async fn list(
    State(app): State<App>,
    identity: Identity,
    uri: Uri,
) -> Result<Json<SchedulesPage>, Problem> {
    let mut query = Query::new(&uri);
    let prefix = query.text("prefix")?.unwrap_or_default();
    let topic = query.text("topic")?.map(|text| {
        text.parse::<Topic>().map_err(|error| Problem::field("topic", error.to_string()))
    });
    let topic = topic.transpose()?;
    let limit = usize::try_from(query.limit(100, MAX_SCHEDULES)?).unwrap_or(usize::MAX);
    let after = query.text("cursor")?.map(|text| {
        text.parse::<ScheduleName>()
            .map_err(|_| Problem::field("cursor", "must be the `cursor` of an earlier page"))
    });
    let mut after = after.transpose()?;
    query.reject_unknown()?;
    if !prefix.is_empty() {
        prefix
            .parse::<ScheduleName>()
            .map_err(|error| Problem::field("prefix", error.to_string()))?;
    }
    let topics = identity.topics()?;
    let shows = |record: &Record| {
        let own = &record.definition.topic;
        topics.allows(own) && topic.as_ref().is_none_or(|topic| topic == own)
    };
    let (mut found, mut examined, mut most) = (Vec::new(), 0, limit);
    loop {
        let page = SchedulePage { prefix: prefix.clone(), after, limit: most };
        let (page, more_after) = app.schedules.list(page).await?;
        // Long schedules end a read, and so does this page, which would take too much memory.
        let is_cut = page.len() < most && more_after.is_some();
        let (mut page, mut last) = (page.into_iter(), None);
        while found.len() < limit
            && let Some((name, record)) = page.next()
        {
            last = Some(name.clone());
            found.extend(record.filter(shows).map(|record| (name, record)));
        }
        after = if page.len() > 0 { last } else { more_after };
        examined += most;
        if after.is_none() || found.len() == limit || is_cut || examined >= MAX_EXAMINED {
            break;
        }
        // Few of these are shown, so reads of the same size would be many.
        most = (2 * most).min(MAX_READ);
    }
    let cursor = after.map(|name| name.to_string());
    let shown = app.schedules.show(found, app.schedules.now().await?).await;
    let schedules = shown.into_iter().map(|shown| seen_by(&identity, shown)).collect();
    Ok(Json(SchedulesPage { schedules, cursor }))
}

pub async fn get(
    State(app): State<App>,
    identity: Identity,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
) -> Result<Json<ScheduleResponse>, Problem> {
    let record = reachable(&app, &identity, &name).await?;
    shown(&app, &identity, name, (Some(record), app.schedules.now().await?)).await
}

pub async fn put(
    State(app): State<App>,
    identity: Identity,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, Json<ScheduleResponse>), Problem> {
    let request = parse::<PutSchedule>(&content, "")?;
    let kept = request.kept()?;
    let definition = request.valid(&name, app.limits)?;
    may_set(&identity, &definition.topic)?;
    let topics = identity.topics()?;
    let set_by = identity.name().map(ToString::to_string);
    let mut status = StatusCode::OK;
    let set = app.schedules.change(&name, |old, now| {
        status = if matches!(old, Ok(None)) { StatusCode::CREATED } else { StatusCode::OK };
        let old = match old {
            Err(ScheduleError::Unreadable(..)) => {
                may_set_all(&identity)?;
                None
            }
            old => old?,
        };
        if old.as_ref().is_some_and(|old| !topics.allows(&old.definition.topic)) {
            let detail = format!("a schedule of another topic has the name {name:?}");
            return Err(Problem::new(Code::ScheduleExists, detail));
        }
        if let Some(old) = &old {
            may_set(&identity, &old.definition.topic)?;
        }
        let mut new = definition.clone();
        if !kept.is_empty() {
            keep(&identity, old.as_ref(), &kept, &mut new)?;
        }
        let record = Record::set(old, new, now).map_err(Problem::from)?;
        Ok(Some(Record { set_by: set_by.clone(), ..record }))
    });
    let record = set.await?;
    let detail = AuditDetail(format!("schedule of the topic {} set", definition.topic));
    Ok((status, detail, shown(&app, &identity, name, record).await?))
}

pub async fn delete(
    State(app): State<App>,
    identity: Identity,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, ()), Problem> {
    no_body(&content)?;
    let delete = app.schedules.change(&name, |old, _| {
        match old {
            Err(ScheduleError::Unreadable(..)) => may_set_all(&identity)?,
            old => drop(changeable(&identity, &name, old?)?),
        }
        Ok::<_, Problem>(None)
    });
    delete.await?;
    Ok((StatusCode::NO_CONTENT, AuditDetail("schedule deleted".to_owned()), ()))
}

pub async fn pause(
    State(app): State<App>,
    identity: Identity,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<ScheduleResponse>), Problem> {
    no_body(&content)?;
    let paused = |record, _| Ok(Some(Record { paused: true, next: None, ..record }));
    let record = change(&app, &identity, &name, paused).await?;
    Ok((AuditDetail("schedule paused".to_owned()), shown(&app, &identity, name, record).await?))
}

/// Ends a pause: the schedule continues with the first instant after now.
pub async fn resume(
    State(app): State<App>,
    identity: Identity,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<ScheduleResponse>), Problem> {
    no_body(&content)?;
    let resumed = |record: Record, now| {
        if !record.paused {
            return Ok(Some(record));
        }
        let timing = record.definition.timing.parse_known().map_err(Problem::from)?;
        Ok(Some(Record { paused: false, ..record }.restarted(&timing, now)))
    };
    let record = change(&app, &identity, &name, resumed).await?;
    Ok((AuditDetail("schedule resumed".to_owned()), shown(&app, &identity, name, record).await?))
}

/// Puts a job now, also while the schedule is paused.
pub async fn run(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    PathSchedule(name): PathSchedule,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, [(HeaderName, String); 1], TransitionResponse), Problem> {
    no_body(&content)?;
    app.quotas.put(caller, 1)?;
    let topics = identity.topics()?;
    let may_run = |record: &Record| match topics.allows(&record.definition.topic) {
        true => may_set(&identity, &record.definition.topic),
        false => Err(ScheduleError::NotFound(name.clone()).into()),
    };
    let (id, record, placed) = app.schedules.run(&name, may_run).await?;
    let location = [(LOCATION, format!("/jobs/{id}"))];
    let answer = TransitionResponse::placed(id, record.definition.topic, placed);
    let detail = AuditDetail("schedule run".to_owned());
    Ok((StatusCode::CREATED, detail, location, answer))
}

pub async fn preview(
    State(app): State<App>,
    _: NoQuery,
    Content(content): Content,
) -> Result<Json<PreviewResponse>, Problem> {
    let timing = parse::<PreviewSchedule>(&content, "")?.timing()?;
    let (next, description) = app.schedules.preview(&timing).await??;
    Ok(Json(PreviewResponse { next, description }))
}

/// Changes a schedule that the caller may change.
async fn change(
    app: &App,
    identity: &Identity,
    name: &ScheduleName,
    change: impl Fn(Record, UnixMillis) -> Result<Option<Record>, Problem>,
) -> Result<(Option<Record>, UnixMillis), Problem> {
    let changed =
        app.schedules.change(name, |old, now| change(changeable(identity, name, old?)?, now));
    changed.await
}

/// Returns the schedule if the caller may change it.
fn changeable(
    identity: &Identity,
    name: &ScheduleName,
    old: Option<Record>,
) -> Result<Record, Problem> {
    let topics = identity.topics()?;
    let old = old.filter(|old| topics.allows(&old.definition.topic));
    let old = old.ok_or_else(|| Problem::from(ScheduleError::NotFound(name.clone())))?;
    may_set(identity, &old.definition.topic)?;
    Ok(old)
}

/// Reads a schedule whose topic the caller may access.
async fn reachable(app: &App, identity: &Identity, name: &ScheduleName) -> Result<Record, Problem> {
    let topics = identity.topics()?;
    let record = app.schedules.get(name).await?;
    match topics.allows(&record.definition.topic) {
        true => Ok(record),
        false => Err(ScheduleError::NotFound(name.clone()).into()),
    }
}

/// Copies fields from the stored definition. A caller that may not read them must not get them by
/// another topic.
fn keep(
    identity: &Identity,
    old: Option<&Record>,
    fields: &[Hidden],
    new: &mut Definition,
) -> Result<(), Problem> {
    let Some(Record { definition: old, .. }) = old else {
        return Err(Problem::field("hidden", "must be left out, since there is no schedule yet"));
    };
    if old.topic != new.topic && !identity.readable().allows(&old.topic) {
        let detail = format!(
            "must stay {:?}, since `hidden` keeps what the token may not read in this topic",
            old.topic
        );
        return Err(Problem::field("topic", detail));
    }
    fields.iter().for_each(|field| field.keep(old, new));
    Ok(())
}

/// Checks that the caller may set a schedule that puts jobs into this topic.
fn may_set(identity: &Identity, topic: &Topic) -> Result<(), Problem> {
    identity.may(topic)?;
    identity.may_put(topic, "topic")
}

/// Checks that the caller may replace or delete a schedule whose topic cannot be read.
fn may_set_all(identity: &Identity) -> Result<(), Problem> {
    identity.may_everywhere()?;
    identity.may_put_everywhere()
}

/// Shows a schedule that was read or changed at this time.
async fn shown(
    app: &App,
    identity: &Identity,
    name: ScheduleName,
    (record, now): (Option<Record>, UnixMillis),
) -> Result<Json<ScheduleResponse>, Problem> {
    let records = record.into_iter().map(|record| (name.clone(), record)).collect();
    let shown = app.schedules.show(records, now).await.pop();
    Ok(Json(seen_by(identity, shown.ok_or_else(Problem::internal)?)))
}

/// Shows a schedule to a caller: without its content if the token may not read its topic.
fn seen_by(identity: &Identity, shown: Shown) -> ScheduleResponse {
    let may_read = identity.readable().allows(&shown.record.definition.topic);
    let response = ScheduleResponse::from(shown);
    if may_read { response } else { response.without_content() }
}
