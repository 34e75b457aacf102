//! The routes of one job.

use axum::{
    extract::{OriginalUri, State},
    http::{HeaderName, StatusCode, Uri, header::LOCATION},
    response::Response,
};

use super::{
    App,
    content::Content,
    input::{NoQuery, PathId},
    json::Json,
    parse::{parse, parse_or_default},
    problem::Problem,
    query::Query,
    quotas::Caller,
    wire::{self, ActionRequest, IdOnly, JobResponse, Place, TransitionResponse},
};
use crate::{job, queue::QueueError, store::PutOutcome};

type Answer = Result<Json<TransitionResponse>, Problem>;

pub async fn put(
    State(app): State<App>,
    OriginalUri(uri): OriginalUri,
    _: NoQuery,
    caller: Caller,
    Content(content): Content,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<TransitionResponse>), Problem> {
    let put = parse::<wire::PutJob>(&content, "")?.valid(&content, app.limits)?;
    let topic = put.topic.clone();
    app.quotas.put(caller, 1)?;
    let _admitted = app.topic_jobs.admit(&topic, &app.queue).await?;
    let (id, placed) = one(app.queue.put(vec![put]).await)?;
    // Beside the route that was called: at the root, or under /v1.
    let location = [(LOCATION, format!("{}/{id}", uri.path()))];
    let status = placed_status(placed.how);
    Ok((status, location, Json(TransitionResponse::placed(id, topic, placed))))
}

/// Created, or a job that lived before.
pub fn placed_status(how: PutOutcome) -> StatusCode {
    match how {
        PutOutcome::Created => StatusCode::CREATED,
        PutOutcome::Kept | PutOutcome::Replaced => StatusCode::OK,
    }
}

pub async fn get(
    State(app): State<App>,
    PathId(id): PathId,
    _: NoQuery,
) -> Result<Response, Problem> {
    app.memory.has_room()?;
    app.memory.answer(&JobResponse::from(app.queue.get(id).await?))
}

pub async fn patch(
    State(app): State<App>,
    PathId(id): PathId,
    _: NoQuery,
    Content(content): Content,
) -> Result<Json<JobResponse>, Problem> {
    let mut patch = parse::<wire::PatchJob>(&content, "")?;
    if patch.tells() {
        patch = patch.beside(&app.queue.get(id.clone()).await?)?;
    }
    let change = patch.valid(&content, app.limits)?;
    let job = one(app.queue.reschedule(vec![(id, change)]).await)?;
    Ok(Json(job.into()))
}

pub async fn delete(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Answer {
    let id = action::<IdOnly>(id, &uri, &content)?;
    let was = one(app.queue.delete(vec![id.clone()]).await)?;
    Ok(Json(TransitionResponse::in_state(id, was)))
}

pub async fn finish(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Result<StatusCode, Problem> {
    let held = action::<wire::Finish>(id, &uri, &content)?;
    one(app.queue.finish(vec![held]).await)?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn release(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Answer {
    let release = action::<wire::Release>(id.clone(), &uri, &content)?;
    let moved = one(app.queue.release(vec![release]).await)?;
    Ok(Json(TransitionResponse::moved(id, &moved)))
}

pub async fn touch(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Answer {
    let touch = action::<wire::Touch>(id.clone(), &uri, &content)?;
    let until = one(app.queue.touch(vec![touch]).await)?;
    Ok(Json(TransitionResponse::held_until(id, until)))
}

pub async fn bury(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Answer {
    let bury = action::<wire::Bury>(id.clone(), &uri, &content)?;
    one(app.queue.bury(vec![bury]).await)?;
    Ok(Json(TransitionResponse::in_state(id, job::State::Dead)))
}

pub async fn kick(
    State(app): State<App>,
    PathId(id): PathId,
    uri: Uri,
    Content(content): Content,
) -> Answer {
    let id = action::<IdOnly>(id, &uri, &content)?;
    one(app.queue.kick(vec![id.clone()]).await)?;
    Ok(Json(TransitionResponse::in_state(id, job::State::Ready)))
}

/// What a request asks of the job in its path, by query and body.
fn action<W: ActionRequest>(id: job::JobId, uri: &Uri, content: &[u8]) -> Result<W::Job, Problem> {
    let mut query = Query::new(uri);
    let reservation = query.reservation()?;
    query.reject_unknown()?;
    parse_or_default::<W>(content)?.valid(Place::Path(id, reservation))
}

/// The outcome of the only job.
fn one<T>(replies: Vec<Result<T, QueueError>>) -> Result<T, Problem> {
    let reply = replies.into_iter().next();
    reply.ok_or_else(Problem::internal)?.map_err(Problem::from)
}
