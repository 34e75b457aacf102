//! Routes of the pushes of topics.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        edge::log::AuditDetail,
        extract::{
            content::Content,
            input::{NoQuery, PathTopic},
            parse::{no_body, parse},
        },
        limits::quotas::Caller,
        problem::{Code, Problem},
        wire::{PushResponse, PutPush, TestResponse, json::Json},
    },
    job::{Push, PushPause, Topic},
    push::MAX_TESTS,
};

pub async fn get(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
) -> Result<Json<PushResponse>, Problem> {
    identity.may(&topic)?;
    let push = push_of(&app, &topic)?;
    Ok(shown(&app, &identity, topic, &push))
}

pub async fn put(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, Json<PushResponse>), Problem> {
    identity.may(&topic)?;
    let new = parse::<PutPush>(&content, "")?.valid(&topic, |url| app.pushes.check_url(url))?;
    let set_by = identity.name().map(ToString::to_string);
    let mut status = StatusCode::OK;
    let set = app.queue.change_push(&topic, |old| {
        status = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        new.replacing(old, set_by.clone()).map(Some)
    });
    let push = set.await?.ok_or_else(Problem::internal)?;
    Ok((status, AuditDetail(new.audited()), shown(&app, &identity, topic, &push)))
}

pub async fn delete(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(StatusCode, AuditDetail, ()), Problem> {
    identity.may(&topic)?;
    no_body(&content)?;
    let removed = app.queue.change_push(&topic, |old| match old {
        Some(_) => Ok(None),
        None => Err(not_found(&topic)),
    });
    removed.await?;
    Ok((StatusCode::NO_CONTENT, AuditDetail("push removed".to_owned()), ()))
}

pub async fn pause(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<PushResponse>), Problem> {
    identity.may(&topic)?;
    no_body(&content)?;
    let push = set_paused(&app, &topic, Some(PushPause::Requested)).await?;
    Ok((AuditDetail("push paused".to_owned()), shown(&app, &identity, topic, &push)))
}

/// Ends a pause, for whatever reason the push is paused.
pub async fn resume(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<PushResponse>), Problem> {
    identity.may(&topic)?;
    no_body(&content)?;
    let push = set_paused(&app, &topic, None).await?;
    Ok((AuditDetail("push resumed".to_owned()), shown(&app, &identity, topic, &push)))
}

/// Sends a request with a made-up job, also if the push is paused.
pub async fn test(
    State(app): State<App>,
    identity: Identity,
    PathTopic(topic): PathTopic,
    _: NoQuery,
    Content(content): Content,
) -> Result<(AuditDetail, Json<TestResponse>), Problem> {
    identity.may(&topic)?;
    no_body(&content)?;
    let push = push_of(&app, &topic)?;
    let _test = app.quotas.test(Caller::new(&identity))?;
    let tested = app.pushes.test(&topic, &push).await.ok_or_else(|| {
        let detail = format!("{MAX_TESTS} test requests are under way; try again later");
        Problem::new(Code::TooManyRequests, detail)
    })?;
    let detail = AuditDetail("push tested".to_owned());
    Ok((detail, Json(TestResponse::new(&push, tested))))
}

async fn set_paused(app: &App, topic: &Topic, paused: Option<PushPause>) -> Result<Push, Problem> {
    let changed = app.queue.change_push(topic, |old| match old {
        Some(old) => Ok(Some(Push { paused, ..old.clone() })),
        None => Err(not_found(topic)),
    });
    changed.await?.ok_or_else(Problem::internal)
}

fn push_of(app: &App, topic: &Topic) -> Result<Arc<Push>, Problem> {
    app.queue.push_of(topic).ok_or_else(|| not_found(topic))
}

fn not_found(topic: &Topic) -> Problem {
    Problem::new(Code::PushNotFound, format!("the topic {topic:?} has no push"))
}

fn shown(app: &App, identity: &Identity, topic: Topic, push: &Push) -> Json<PushResponse> {
    let status = app.pushes.status(&topic, push);
    let may_read = identity.readable().allows(&topic);
    Json(PushResponse::new(topic, push, status, may_read))
}
