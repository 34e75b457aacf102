//! Routes of one job.

use axum::{
    body::Bytes,
    extract::State,
    http::{
        HeaderName, HeaderValue, StatusCode, Uri,
        header::{CACHE_CONTROL, LOCATION},
    },
    response::Response,
};
use tokio::time::Instant;

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        extract::{
            content::Content,
            input::{NoQuery, PathId, Traced},
            parse::{parse, parse_or_default},
            query::Query,
        },
        limits::{in_flight::InFlightPermit, quotas::Caller},
        problem::Problem,
        wire::{
            self, ActionRequest, ActionRules, IdOnly, JobResponse, PatchJob, RequestPosition,
            TransitionResponse, json::Json, policy::finished_retention,
        },
    },
    job::{self, Change, Topics},
    queue::{Admitted, QueueError},
    store::{self, JobRef, PutOutcome, Target},
    traces,
};

type Answer = Result<TransitionResponse, Problem>;

pub async fn put(
    State(app): State<App>,
    identity: Identity,
    uri: Uri,
    _: NoQuery,
    caller: Caller,
    Traced(traceparent): Traced,
    Content(content): Content,
) -> Result<(StatusCode, [(HeaderName, String); 1], TransitionResponse), Problem> {
    let put = parse::<wire::PutJob>(&content, "")?.valid(&content, app.limits, traceparent)?;
    let topic = put.topic.clone();
    identity.may(&topic)?;
    app.quotas.put(caller, 1)?;
    let _admitted = app.capacity.put(&topic, put.body.len(), &app.queue).await?;
    let placed = one(app.queue.put(vec![put]).await);
    let (id, placed) = placed.map_err(|problem| problem.seen_by(&identity, &topic))?;
    tracing::debug!(target: traces::TARGET, %id, %topic, "put");
    // Keeps the prefix of the called route: none, or /v1.
    let location = [(LOCATION, [uri.path(), "/", id.as_str()].concat())];
    let status = placed_status(placed.how);
    Ok((status, location, TransitionResponse::placed(id, topic, placed)))
}

/// Returns 201 for a created job and 200 for one that existed before.
pub fn placed_status(how: PutOutcome) -> StatusCode {
    match how {
        PutOutcome::Created => StatusCode::CREATED,
        PutOutcome::Kept | PutOutcome::Replaced => StatusCode::OK,
    }
}

type GetInput = (State<App>, Identity, Caller, InFlightPermit, PathId, Uri);

pub async fn get(input: GetInput) -> ([(HeaderName, HeaderValue); 1], Result<Response, Problem>) {
    // A job that does not exist may be put a moment later, so refusals are not stored either.
    ([(CACHE_CONTROL, HeaderValue::from_static("no-store"))], read_or_wait(input).await)
}

async fn read_or_wait(
    (State(app), identity, caller, permit, PathId(id), uri): GetInput,
) -> Result<Response, Problem> {
    let topics = identity.topics()?;
    let mut query = Query::new(&uri);
    let wait = wire::wait(query.duration("wait")?)?;
    query.reject_unknown()?;
    app.memory.free_room().await?;
    let target = Target { id, topics };
    if wait.is_zero() {
        return app.memory.answer(&seen_by(&identity, app.queue.get(target).await?));
    }
    let _waiting = app.quotas.wait(caller)?;
    permit.leave();
    let end = Instant::now() + wait;
    let job = app.queue.wait_for_end(target, end, || identity.check()).await?;
    app.memory.free_room().await?;
    app.memory.answer(&seen_by(&identity, job))
}

pub async fn patch(
    State(app): State<App>,
    identity: Identity,
    PathId(id): PathId,
    _: NoQuery,
    Content(content): Content,
) -> Result<Json<JobResponse>, Problem> {
    let target = Target { id, topics: identity.topics()? };
    let patch = parse::<PatchJob>(&content, "")?;
    let (change, _admitted) = change_of(&app, patch, &target, &content).await?;
    let job = one(app.queue.reschedule(vec![(target, change)]).await)?;
    Ok(Json(seen_by(&identity, job)))
}

/// Validates the change of a job, and admits its new body to the limits of its topic and of the
/// store.
pub async fn change_of(
    app: &App,
    mut patch: PatchJob<'_>,
    target: &Target,
    content: &Bytes,
) -> Result<(Change, Option<Admitted>), Problem> {
    let mut known = None;
    if patch.has_read_only_fields() {
        let job = app.queue.get(target.clone()).await?;
        patch = patch.without_unchanged(&job)?;
        known = Some(job.topic);
    }
    let change = patch.valid(content, app.limits)?;
    let Some(body) = change.body.as_ref().filter(|_| app.capacity.is_limited()) else {
        return Ok((change, None));
    };
    let topic = match known {
        Some(topic) => topic,
        None => app.queue.get(target.clone()).await?.topic,
    };
    let admitted = app.capacity.change(&topic, body.len(), &app.queue).await?;
    Ok((change, Some(admitted)))
}

/// Shows a job to a caller: without its content if the token may not read its topic.
pub fn seen_by(identity: &Identity, job: job::Job) -> JobResponse {
    let may_read = identity.readable().allows(&job.topic);
    let response = JobResponse::from(job);
    if may_read { response } else { response.without_content() }
}

/// Extracted request for a transition of the job in the path.
type ActionInput = (State<App>, Identity, PathId, Uri, Content);

pub async fn delete(
    (State(app), identity, PathId(id), uri, Content(content)): ActionInput,
) -> Answer {
    let (topics, key) = (identity.topics()?, app.queue.reservation_key());
    let rules = ActionRules { key: &key, limits: app.limits };
    let delete = delete_of(id.clone(), &uri, &content, (topics, rules))?;
    let was = one(app.queue.delete(vec![delete]).await)?;
    Ok(TransitionResponse::in_state(id, was))
}

pub async fn finish(input: ActionInput) -> Result<StatusCode, Problem> {
    // A result counts against limits.memory_bytes until the store has answered.
    let _content = input.4.0.clone();
    let (app, _, held) = read_action::<wire::Finish>(input)?;
    one(app.queue.finish(vec![held]).await)?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn release(input: ActionInput) -> Answer {
    // A new body counts against limits.memory_bytes until the store has answered.
    let _content = input.4.0.clone();
    let (app, id, release) = read_action::<wire::Release>(input)?;
    let _admitted = new_body_of(&app, &release).await?;
    let moved = one(app.queue.release(vec![release]).await)?;
    Ok(TransitionResponse::moved(id, &moved))
}

/// Admits the new body of a released job to the limits of its topic and of the store.
pub async fn new_body_of(app: &App, release: &store::Release) -> Result<Option<Admitted>, Problem> {
    let Some(body) = release.body.as_ref().filter(|_| app.capacity.is_limited()) else {
        return Ok(None);
    };
    let JobRef { id, topics, .. } = release.held.clone();
    let topic = app.queue.get(Target { id, topics }).await?.topic;
    Ok(Some(app.capacity.change(&topic, body.len(), &app.queue).await?))
}

pub async fn touch(input: ActionInput) -> Answer {
    let (app, id, touch) = read_action::<wire::Touch>(input)?;
    let until = one(app.queue.touch(vec![touch]).await)?;
    Ok(TransitionResponse::held_until(id, until))
}

pub async fn bury(input: ActionInput) -> Answer {
    let (app, id, bury) = read_action::<wire::Bury>(input)?;
    let moved = one(app.queue.bury(vec![bury]).await)?;
    Ok(TransitionResponse::buried(id, &moved))
}

pub async fn kick(input: ActionInput) -> Answer {
    let (app, id, job) = read_action::<IdOnly>(input)?;
    one(app.queue.kick(vec![job]).await)?;
    Ok(TransitionResponse::in_state(id, job::State::Ready))
}

/// Parses an action on one job; the store's key verifies the reservation.
fn read_action<W: ActionRequest>(
    (State(app), identity, PathId(id), uri, Content(content)): ActionInput,
) -> Result<(App, job::JobId, W::Job), Problem> {
    let (topics, key) = (identity.topics()?, app.queue.reservation_key());
    let rules = ActionRules { key: &key, limits: app.limits };
    let job = action::<W>(id.clone(), &uri, &content, (topics, rules))?;
    Ok((app, id, job))
}

/// Parses a delete of the job in the path; the body may be an empty object.
pub fn delete_of(
    id: job::JobId,
    uri: &Uri,
    content: &[u8],
    (topics, rules): (Topics, ActionRules<'_>),
) -> Result<store::Delete, Problem> {
    let mut query = Query::new(uri);
    let states = query.states()?;
    let remember = finished_retention("remember", query.duration("remember")?)?;
    query.reject_unknown()?;
    let position = RequestPosition::Path(id, None, topics);
    let job = parse_or_default::<IdOnly>(content)?.valid(position, rules)?;
    Ok(store::Delete { job, states, remember })
}

/// Parses an action on the job in the path from query and body.
pub fn action<W: ActionRequest>(
    id: job::JobId,
    uri: &Uri,
    content: &[u8],
    (topics, rules): (Topics, ActionRules<'_>),
) -> Result<W::Job, Problem> {
    let mut query = Query::new(uri);
    let reservation = query.reservation()?;
    query.reject_unknown()?;
    parse_or_default::<W>(content)?.valid(RequestPosition::Path(id, reservation, topics), rules)
}

/// Returns the outcome of the only job.
fn one<T>(replies: Vec<Result<T, QueueError>>) -> Result<T, Problem> {
    let reply = replies.into_iter().next();
    reply.ok_or_else(Problem::internal)?.map_err(Problem::from)
}
