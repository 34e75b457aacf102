//! Routes of batches: each job has its own result, in the order of the request.

mod changes;

pub use changes::patch;

use std::sync::Arc;

use axum::{body::Bytes, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::jobs::{new_body_of, placed_status};
use crate::{
    config::Limits,
    http::{
        app::App,
        client::identity::Identity,
        edge::log::PartFailed,
        extract::{
            content::Content,
            input::{NoQuery, Traced},
            parse::parse,
        },
        limits::{memory::Share, quotas::Caller},
        problem::{Problem, Written},
        wire::{
            self, ActionRequest, ActionRules, ChangedJob, IdOnly, RequestPosition,
            TransitionResponse, json::Json,
        },
    },
    job::{JobId, List, State as JobState, Topic, Topics, TraceParent},
    queue::{Put, Queue, QueueError},
    store::{Applied, JobRequest, MAX_BATCH, StoreError, Transitioned},
    traces,
};

#[derive(Serialize)]
pub struct Results {
    results: Vec<ResultOfOne>,
    /// Memory of the results until they are written.
    #[serde(skip)]
    room: Vec<Share>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultOfOne {
    Done(TransitionResponse),
    Changed(Box<ChangedJob>),
    Refused(Written),
}

impl From<TransitionResponse> for ResultOfOne {
    fn from(done: TransitionResponse) -> Self {
        Self::Done(done)
    }
}

type Answer = Result<(Option<PartFailed>, Json<Results>), Problem>;

pub async fn put(
    State(app): State<App>,
    identity: Identity,
    _: NoQuery,
    caller: Caller,
    Traced(traceparent): Traced,
    Content(content): Content,
) -> Answer {
    identity.topics()?;
    let jobs = jobs(&content)?;
    app.quotas.put(caller, jobs.len())?;
    let puts = jobs.into_iter().enumerate().map(|(index, json)| {
        let within = format!("jobs[{index}]");
        let put = put_of(json, &within, &content, app.limits, traceparent)?;
        identity.may(&put.topic)?;
        Ok(((put.id.clone(), put.topic.clone()), put))
    });
    let mut puts: Vec<Item<(Option<JobId>, Topic), Put>> = puts.collect();
    let room = app.memory.room_for_results(puts.len())?;
    let mut admitted = Vec::new();
    for item in &mut puts {
        let Ok(((_, topic), put)) = item else { continue };
        match app.capacity.put(topic, put.body.len(), &app.queue).await {
            Ok(permits) => admitted.push(permits),
            Err(full) => *item = Err(full.into()),
        }
    }
    let call = async |puts| app.queue.put(puts).await;
    answer(
        room,
        puts,
        call,
        |(id, _)| id.clone(),
        |(_, topic), problem| problem.seen_by(&identity, topic),
        |(_, topic), (id, placed)| {
            let status = placed_status(placed.how);
            tracing::debug!(target: traces::TARGET, %id, %topic, "put");
            TransitionResponse::placed(id, topic, placed).with_status(status).into()
        },
    )
    .await
}

/// Extracted request for a transition of many jobs.
type ActionInput = (State<App>, Identity, NoQuery, Content);

pub async fn finish(input: ActionInput) -> Answer {
    let call = async |queue: Arc<Queue>, held| queue.finish(held).await;
    act_on_each::<wire::Finish, _>(input, call, |id, _topic| {
        TransitionResponse::finished(id).with_status(StatusCode::NO_CONTENT)
    })
    .await
}

pub async fn release((State(app), identity, _, Content(content)): ActionInput) -> Answer {
    let (topics, key) = (identity.topics()?, app.queue.reservation_key());
    let rules = ActionRules { key: &key, limits: app.limits };
    let mut releases = requests::<wire::Release>(&content, (&topics, rules))?;
    let room = app.memory.room_for_results(releases.len())?;
    let mut admitted = Vec::new();
    for (index, item) in releases.iter_mut().enumerate() {
        let Ok((_, release)) = item else { continue };
        match new_body_of(&app, release).await {
            Ok(permits) => admitted.extend(permits),
            Err(problem) => *item = Err(problem.within(&format!("jobs[{index}]"))),
        }
    }
    let call = async |releases| app.queue.release(releases).await;
    let done = |id, moved: Transitioned| {
        TransitionResponse::moved(id, &moved).with_status(StatusCode::OK).into()
    };
    answer(room, releases, call, |id| Some(id.clone()), |_, problem| problem, done).await
}

pub async fn touch(input: ActionInput) -> Answer {
    let call = async |queue: Arc<Queue>, touches| queue.touch(touches).await;
    act_on_each::<wire::Touch, _>(input, call, |id, until| {
        TransitionResponse::held_until(id, until).with_status(StatusCode::OK)
    })
    .await
}

pub async fn delete(input: ActionInput) -> Answer {
    let call = async |queue: Arc<Queue>, ids| queue.delete(ids).await;
    act_on_each::<wire::Delete, _>(input, call, |id, was| {
        TransitionResponse::in_state(id, was).with_status(StatusCode::OK)
    })
    .await
}

pub async fn bury(input: ActionInput) -> Answer {
    let call = async |queue: Arc<Queue>, burials| queue.bury(burials).await;
    act_on_each::<wire::Bury, _>(input, call, |id, moved| {
        TransitionResponse::buried(id, &moved).with_status(StatusCode::OK)
    })
    .await
}

pub async fn kick(input: ActionInput) -> Answer {
    let call = async |queue: Arc<Queue>, targets| queue.kick(targets).await;
    act_on_each::<IdOnly, _>(input, call, |id, _readied| {
        TransitionResponse::in_state(id, JobState::Ready).with_status(StatusCode::OK)
    })
    .await
}

/// Runs a transition of each job; `key` verifies the reservations.
async fn act_on_each<W: ActionRequest, O>(
    (State(app), identity, _, Content(content)): ActionInput,
    call: impl AsyncFnOnce(Arc<Queue>, Vec<W::Job>) -> Vec<Result<O, QueueError>>,
    done: impl Fn(JobId, O) -> TransitionResponse,
) -> Answer {
    let (topics, key) = (identity.topics()?, app.queue.reservation_key());
    let rules = ActionRules { key: &key, limits: app.limits };
    let jobs = requests::<W>(&content, (&topics, rules))?;
    let room = app.memory.room_for_results(jobs.len())?;
    let call = async |jobs| call(Arc::clone(&app.queue), jobs).await;
    let done = |id, reply| done(id, reply).into();
    answer(room, jobs, call, |id| Some(id.clone()), |_, problem| problem, done).await
}

/// Parses one put of a batch.
pub fn put_of(
    json: &RawValue,
    within: &str,
    content: &Bytes,
    limits: Limits,
    traceparent: Option<TraceParent>,
) -> Result<Put, Problem> {
    let put = parse::<wire::PutJob>(json.get().as_bytes(), within)?;
    put.valid(content, limits, traceparent).map_err(|problem| problem.within(within))
}

/// Splits a batch into the JSON texts of its jobs.
pub fn jobs(content: &Bytes) -> Result<Vec<&RawValue>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Batch<'a> {
        #[serde(borrow)]
        jobs: List<&'a RawValue, MAX_BATCH>,
    }

    let Batch { jobs: List(jobs) } = parse(content, "")?;
    Ok(jobs)
}

/// One job of a batch: data for its result (`T`) and the request (`J`), or its refusal.
pub type Item<T, J> = Result<(T, J), Problem>;

/// Parses the request for each job of a batch.
pub fn requests<W: ActionRequest>(
    content: &Bytes,
    (topics, rules): (&Topics, ActionRules<'_>),
) -> Result<Vec<Item<JobId, W::Job>>, Problem> {
    let action = |(index, json): (usize, &RawValue)| {
        let within = format!("jobs[{index}]");
        let action: W = parse(json.get().as_bytes(), &within)?;
        let job = action
            .valid(RequestPosition::Batch(topics.clone()), rules)
            .map_err(|problem| problem.within(&within))?;
        Ok((job.id().clone(), job))
    };
    Ok(jobs(content)?.into_iter().enumerate().map(action).collect())
}

/// Calls the queue with the valid jobs, and merges the results with the refusals.
async fn answer<T, J, O>(
    room: Share,
    items: Vec<Item<T, J>>,
    call: impl AsyncFnOnce(Vec<J>) -> Vec<Result<O, QueueError>>,
    id: impl Fn(&T) -> Option<JobId>,
    seen: impl Fn(&T, Problem) -> Problem,
    done: impl Fn(T, O) -> ResultOfOne,
) -> Answer {
    let mut jobs = Vec::with_capacity(items.len());
    let tags: Vec<Result<T, Problem>> = items
        .into_iter()
        .map(|item| {
            item.map(|(tag, job)| {
                jobs.push(job);
                tag
            })
        })
        .collect();
    let replies = call(jobs).await;
    if let Some(error) = whole_batch_failed(&replies) {
        return Err(error.into());
    }
    let mut failed: Option<PartFailed> = None;
    let mut replies = replies.into_iter();
    let results = tags.into_iter().enumerate().map(|(index, tag)| match tag {
        Err(problem) => ResultOfOne::Refused(problem.of_job(None)),
        Ok(tag) => match replies.next().map(|reply| reply.map_err(Problem::from)) {
            Some(Ok(reply)) => done(tag, reply),
            refused => {
                let problem = refused.and_then(Result::err).unwrap_or_else(Problem::internal);
                let problem = seen(&tag, problem).within(&format!("jobs[{index}]"));
                PartFailed::add(&mut failed, &problem);
                ResultOfOne::Refused(problem.of_job(id(&tag)))
            }
        },
    });
    let results = results.collect();
    Ok((failed, Json(Results { results, room: vec![room] })))
}

/// Returns the store's error if every job failed by one: a client that only looks at the status
/// must not take that for success.
fn whole_batch_failed<O>(replies: &[Result<O, QueueError>]) -> Option<StoreError> {
    let errors: Option<Vec<&StoreError>> = replies
        .iter()
        .map(|reply| match reply {
            Err(QueueError::Store(error)) => Some(error),
            _ => None,
        })
        .collect();
    let errors = errors?;
    let unknown = errors.iter().find(|error| error.applied() == Applied::Unknown);
    unknown.or(errors.first()).map(|&error| error.clone())
}
