//! The batch of changes, whose results contain whole jobs.

use std::mem;

use axum::{body::Bytes, extract::State};
use serde_json::value::RawValue;

use super::{ActionInput, Answer, ResultOfOne, answer, jobs};
use crate::{
    http::{
        app::App,
        extract::{content::Content, parse::parse},
        limits::memory::Share,
        problem::Problem,
        routes::jobs::{change_of, seen_by},
        wire::{ChangedJob, PatchJob, json::Json},
    },
    job::{Change, Job, JobId, Topics},
    queue::{Admitted, QueueError},
    store::Target,
};

/// Jobs that a batch changes at once. Their bodies are in memory until the answer is written, so
/// each group begins only if there is room.
const CHANGED_AT_ONCE: usize = 100;

pub async fn patch((State(app), identity, _, Content(content)): ActionInput) -> Answer {
    let topics = identity.topics()?;
    let jobs = jobs(&content)?;
    let (room, mut bodies) = (app.memory.room_for_results(jobs.len())?, app.memory.share());
    let (mut changes, mut admitted) = (Vec::with_capacity(jobs.len()), Vec::new());
    for (index, json) in jobs.into_iter().enumerate() {
        let within = format!("jobs[{index}]");
        let change = patch_of(&app, json, &within, &content, &topics).await;
        changes.push(change.map(|(target, change, permits)| {
            admitted.extend(permits);
            (target.id.clone(), (target, change))
        }));
    }
    let call = async |changes| change_in_groups(&app, changes, &mut bodies).await;
    let done = |_, job: Option<Job>| match job {
        Some(job) => ResultOfOne::Changed(Box::new(ChangedJob::new(seen_by(&identity, job)))),
        None => ResultOfOne::Refused(Problem::overloaded().of_job(None)),
    };
    let answer =
        answer(room, changes, call, |id: &JobId| Some(id.clone()), |_, problem| problem, done);
    let (failed, Json(mut results)) = answer.await?;
    results.room.push(bodies);
    Ok((failed, Json(results)))
}

/// Parses one change of a batch, and admits its new body to the limits.
async fn patch_of(
    app: &App,
    json: &RawValue,
    within: &str,
    content: &Bytes,
    topics: &Topics,
) -> Result<(Target, Change, Option<Admitted>), Problem> {
    let mut patch = parse::<PatchJob>(json.get().as_bytes(), within)?;
    let changed = match patch.take_id() {
        Some(id) => {
            let target = Target { id, topics: topics.clone() };
            change_of(app, patch, &target, content)
                .await
                .map(|(change, permits)| (target, change, permits))
        }
        None => Err(Problem::field("id", "is missing")),
    };
    changed.map_err(|problem| problem.within(within))
}

/// Changes jobs in groups. If there is no memory for the bodies of a group, its jobs stay as they
/// are and their results are `None`.
async fn change_in_groups(
    app: &App,
    mut changes: Vec<(Target, Change)>,
    bodies: &mut Share,
) -> Vec<Result<Option<Job>, QueueError>> {
    let mut results = Vec::with_capacity(changes.len());
    while !changes.is_empty() {
        let rest = changes.split_off(changes.len().min(CHANGED_AT_ONCE));
        let group = mem::replace(&mut changes, rest);
        if app.memory.has_room().is_err() {
            results.extend(group.into_iter().map(|_| Ok(None)));
            continue;
        }
        let changed = app.queue.reschedule(group).await;
        // As jobs, and as the text of the answer.
        let bytes = changed.iter().flatten().map(Job::content_bytes).sum::<usize>();
        bodies.grow_beyond(2 * bytes);
        results.extend(changed.into_iter().map(|result| result.map(Some)));
    }
    results
}
