//! Routes of batches.

use axum::http::Method;
use serde_json::{Value, json};

use super::{
    consumers::{buried, moved, touched},
    examples::{self, RESERVATION},
    jobs::{in_state, placed},
};
use crate::{
    access::Scope,
    http::{
        openapi::{Handled, Operation, Schemas, on},
        problem::{Code, Written},
        routes::batch,
        wire::{
            Bury, ChangedJob, Delete, Finish, IdOnly, PatchJob, PutJob, Release, Touch,
            TransitionResponse,
        },
    },
    store::MAX_BATCH,
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let of_consumers = [finish(schemas), release(schemas), touch(schemas), bury(schemas)];
    let of_operators = [patch(schemas), kick(schemas), delete(schemas)];
    let all = [put(schemas)].into_iter().chain(of_consumers).chain(of_operators);
    all.map(|operation| operation.tag("Batches")).collect()
}

/// Declares a batch route; `done` is the schema of a success with one job.
fn of_many(
    schemas: &mut Schemas,
    handled: Handled,
    [path, name, summary]: [&'static str; 3],
    (body, job): (&Value, Value),
    (done, result): (&Value, Value),
) -> Operation {
    let text = format!(
        "Up to {MAX_BATCH} jobs, which succeed and fail independently. The answer has one result for each job, in \
         the order of the request: the answer or the problem of the route for one job, with its `status`. If the \
         store fails for all jobs, the whole request gets that problem."
    );
    let refused = schemas.answer::<Written>();
    let results = json!({
        "type": "object",
        "properties": { "results": {
            "type": "array", "minItems": 1, "maxItems": MAX_BATCH,
            "items": { "anyOf": [done, refused] },
            "description": "One result for each job, in the order of the request.",
        } },
        "required": ["results"],
    });
    let results = schemas.part(&format!("{}Results", camel(name)), results);
    let example = json!({ "results": [result] });
    Operation::new(handled, path, name, summary)
        .text(&text)
        .takes(body, &json!({ "jobs": [job] }))
        .gives(200, "A result for each job.", &results, &example)
}

fn camel(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}

/// Adds a status to the schema of the answer for one job.
fn with_status(schemas: &mut Schemas, name: &str, of_one: &Value, status: &[u16]) -> Value {
    let name_of_one = of_one["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let mut result = schemas.of_name(name_of_one.unwrap_or_default());
    result["properties"]["status"] = json!({
        "type": "integer", "enum": status, "description": "The status that the route for one job would answer.",
    });
    if let Some(required) = result["required"].as_array_mut() {
        required.push("status".into());
    }
    schemas.part(name, result)
}

fn put(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/jobs", "put_jobs", "Put jobs"];
    let put = schemas.request::<PutJob>();
    let body = schemas.batch("PutJobBatch", &put);
    let one = placed(schemas);
    let done = with_status(schemas, "PlacedResult", &one, &[200, 201]);
    let job = json!({ "topic": "mail", "id": "m1" });
    let result = json!({
        "id": "m1", "topic": "mail", "state": "ready", "due_at": "2030-01-31T12:00:00.000Z",
        "status": 201,
    });
    of_many(schemas, on(Method::POST, batch::put), names, (&body, job), (&done, result))
        .needs(&[Scope::Put])
        .refuses(&[Code::StoreFull, Code::StoreUnsafe])
}

fn finish(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/finish", "finish_jobs", "Finish jobs"];
    let body = schemas.in_batch::<Finish>("Finish");
    let one = schemas.some_of::<TransitionResponse>("FinishedJob", "A finished job.", &["id"]);
    let done = with_status(schemas, "FinishedResult", &one, &[204]);
    let job = json!({ "id": "call:1", "reservation": RESERVATION });
    let result = json!({ "id": "call:1", "status": 204 });
    of_many(schemas, on(Method::POST, batch::finish), names, (&body, job), (&done, result))
        .needs(&[Scope::Pop])
}

fn release(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/release", "release_jobs", "Release jobs"];
    let body = schemas.in_batch::<Release>("Release");
    let one = moved(schemas);
    let done = with_status(schemas, "ReleasedResult", &one, &[200]);
    let job = json!({
        "id": "call:1", "reservation": RESERVATION, "delay": "5m", "count_attempt": false,
    });
    let result = json!({
        "id": "call:1", "state": "delayed", "due_at": "2030-01-31T12:05:00.000Z", "status": 200,
    });
    of_many(schemas, on(Method::POST, batch::release), names, (&body, job), (&done, result))
        .needs(&[Scope::Pop])
}

fn touch(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/touch", "touch_jobs", "Touch jobs"];
    let body = schemas.in_batch::<Touch>("Touch");
    let one = touched(schemas);
    let done = with_status(schemas, "HeldResult", &one, &[200]);
    let job = json!({ "id": "call:1", "reservation": RESERVATION });
    let result =
        json!({ "id": "call:1", "reserved_until": "2030-01-31T12:05:00.000Z", "status": 200 });
    of_many(schemas, on(Method::POST, batch::touch), names, (&body, job), (&done, result))
        .needs(&[Scope::Pop])
}

fn bury(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/bury", "bury_jobs", "Bury jobs"];
    let body = schemas.in_batch::<Bury>("Bury");
    let one = buried(schemas);
    let done = with_status(schemas, "BuriedResult", &one, &[200]);
    let job = json!({ "id": "call:1", "reservation": RESERVATION, "error": "no such shop" });
    let result = json!({ "id": "call:1", "state": "dead", "status": 200 });
    of_many(schemas, on(Method::POST, batch::bury), names, (&body, job), (&done, result))
        .needs(&[Scope::Pop])
}

fn patch(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/patch", "change_jobs", "Change jobs"];
    let body = schemas.in_batch::<PatchJob>("Patch");
    let done = schemas.answer::<ChangedJob>();
    let job = json!({ "id": "call:1", "delay": "2m" });
    let mut result = examples::job("delayed");
    result["status"] = 200.into();
    of_many(schemas, on(Method::POST, batch::patch), names, (&body, job), (&done, result))
        .needs(&[Scope::Manage, Scope::Cancel])
}

fn kick(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/kick", "kick_jobs", "Kick jobs"];
    let body = schemas.in_batch::<IdOnly>("Kick");
    let one = in_state(schemas);
    let done = with_status(schemas, "KickedResult", &one, &[200]);
    let job = json!({ "id": "call:1" });
    let result = json!({ "id": "call:1", "state": "ready", "status": 200 });
    of_many(schemas, on(Method::POST, batch::kick), names, (&body, job), (&done, result))
        .needs(&[Scope::Manage, Scope::Cancel])
}

fn delete(schemas: &mut Schemas) -> Operation {
    let names = ["/batch/delete", "delete_jobs", "Delete jobs"];
    let body = schemas.in_batch::<Delete>("Delete");
    let one = in_state(schemas);
    let done = with_status(schemas, "DeletedResult", &one, &[200]);
    let result = json!({ "id": "call:1", "state": "delayed", "status": 200 });
    of_many(
        schemas,
        on(Method::POST, batch::delete),
        names,
        (&body, json!({ "id": "call:1" })),
        (&done, result),
    )
    .needs(&[Scope::Manage, Scope::Cancel])
}
