//! Routes of one job.

use axum::http::Method;
use serde_json::json;

use super::examples::job;
use crate::{
    access::Scope,
    http::{
        openapi::{Operation, Schemas, on},
        problem::Code,
        routes::jobs,
        schema::types,
        wire::{JobResponse, MAX_WAIT, PatchJob, PutJob, TransitionResponse},
    },
    job::{MAX_FINISHED_RETENTION, Millis, States},
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    [put(schemas), get(schemas), patch(schemas), delete(schemas), kick(schemas)]
        .map(|operation| operation.tag("Jobs"))
        .into()
}

fn put(schemas: &mut Schemas) -> Operation {
    let placed = placed(schemas);
    let put = json!({
        "topic": "callbacks", "id": "call:1", "body": { "shop": 7 }, "delay": "2m", "ttr": "90s",
        "backoff": ["2m", "10m", "1h"], "priority": 7,
    });
    let answer = json!({
        "id": "call:1", "topic": "callbacks", "state": "delayed",
        "due_at": "2030-01-31T12:02:00.000Z",
    });
    Operation::new(on(Method::POST, jobs::put), "/jobs", "put_job", "Put a job")
        .text(
            "Only `topic` is required. After 503 with `\"applied\": \"unknown\"`, a put with its own `id` is safe to \
             repeat: if the first put was applied, the second gets 409 `job_exists`, or 200 with \
             `\"on_conflict\": \"keep\"`. A `finished_retention` keeps the id taken after the job is finished, so \
             that a late second put does not run the work again. A job with `expires_after` expires at that time \
             after its due time: if it is still delayed or ready then, it becomes dead.",
        )
        .needs(&[Scope::Put])
        .takes(&schemas.request::<PutJob>(), &put)
        .gives(201, "The job is new, or replaced a finished one.", &placed, &answer)
        .with_header("Location", "The job's own route.", "/jobs/call:1")
        .gives(200, "`on_conflict` kept or replaced the job that has the id.", &placed, &answer)
        .with_header("Location", "The job's own route.", "/jobs/call:1")
        .refuses(&[Code::JobExists, Code::JobReserved, Code::TopicFull])
        .refuses(&[Code::StoreFull, Code::StoreUnsafe])
}

/// Returns the schema of the answer to a put.
pub fn placed(schemas: &mut Schemas) -> serde_json::Value {
    let fields = ["id", "topic", "state", "due_at"];
    schemas.some_of::<TransitionResponse>("PlacedJob", "A job that was put.", &fields)
}

/// Returns the schema of an answer with the state of a job.
pub fn in_state(schemas: &mut Schemas) -> serde_json::Value {
    let fields = ["id", "state"];
    schemas.some_of::<TransitionResponse>("JobInState", "A job and its state.", &fields)
}

fn get(schemas: &mut Schemas) -> Operation {
    let wait = types::duration_in_query(Millis::ZERO, MAX_WAIT).to_value();
    Operation::new(on(Method::GET, jobs::get), "/jobs/{id}", "get_job", "Get a job")
        .text(
            "The job with its body, its times, its attempts and its last error. A finished job has no body, but its \
             outcome and the result that its consumer gave. With `wait`, the server answers when the job is finished, \
             dead or removed (404), or when the wait ends, with the state that the job has then.",
        )
        .needs(&[Scope::Read, Scope::Cancel])
        .with_id(schemas)
        .in_query("wait", false, &wait, "Time to wait for the end of the job. Default: 0.")
        .gives(200, "The job.", &schemas.answer::<JobResponse>(), &job("delayed"))
        .with_header("Cache-Control", "Always `no-store`.", "no-store")
        .refuses(&[Code::JobNotFound, Code::JobDamaged, Code::Overloaded])
}

fn patch(schemas: &mut Schemas) -> Operation {
    Operation::new(on(Method::PATCH, jobs::patch), "/jobs/{id}", "change_job", "Change a job")
        .text(
            "Changes a delayed or ready job. The request may contain the whole answer of a `GET`: fields that cannot \
             be changed are accepted if they equal those of the job. A change of the due time or of `expires_after` \
             sets a new `expires_at`. The reservation of a consumer whose TTR has ended is lost.",
        )
        .needs(&[Scope::Manage, Scope::Cancel])
        .with_id(schemas)
        .takes(&schemas.request::<PatchJob>(), &json!({ "delay": "2m" }))
        .gives(200, "The job as it is now.", &schemas.answer::<JobResponse>(), &job("delayed"))
        .refuses(&[
            Code::JobNotFound,
            Code::JobReserved,
            Code::JobDead,
            Code::JobFinished,
            Code::JobDamaged,
            Code::TopicFull,
            Code::StoreFull,
        ])
}

fn delete(schemas: &mut Schemas) -> Operation {
    let remember = types::duration_in_query(Millis::ZERO, MAX_FINISHED_RETENTION).to_value();
    let answer = json!({ "id": "call:1", "state": "delayed" });
    Operation::new(on(Method::DELETE, jobs::delete), "/jobs/{id}", "delete_job", "Delete a job")
        .text(
            "Deletes the job in any state, or only in the states that `state` lists: `?state=delayed,ready` never \
             takes a job from its consumer. With `remember`, the id stays taken for this time: the job is `finished` \
             with the outcome `deleted`, so that a repeated put does not create it again.",
        )
        .needs(&[Scope::Manage, Scope::Cancel])
        .with_id(schemas)
        .in_query("state", false, &schemas.request::<States>(), "States in which it is deleted.")
        .such_as("delayed,ready")
        .in_query(
            "remember",
            false,
            &remember,
            "Time that the id stays taken, at most 30 days. Default: 0.",
        )
        .such_as("1h")
        .may_take_nothing()
        .gives(200, "The job is deleted; `state` is its state before.", &in_state(schemas), &answer)
        .refuses(&[Code::JobNotFound, Code::WrongState, Code::JobDamaged])
}

fn kick(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "id": "call:1", "state": "ready" });
    Operation::new(on(Method::POST, jobs::kick), "/jobs/{id}/kick", "kick_job", "Kick a job")
        .text(
            "Makes a delayed or dead job ready now. The attempts of a dead job start from zero, and its \
             `expires_after` counts from now. A ready job stays as it is.",
        )
        .needs(&[Scope::Manage, Scope::Cancel])
        .with_id(schemas)
        .may_take_nothing()
        .gives(200, "The job is ready.", &in_state(schemas), &answer)
        .refuses(&[Code::JobNotFound, Code::JobReserved, Code::JobFinished, Code::JobDamaged])
}
