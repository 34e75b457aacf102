//! Routes of consumers: pop, finish, release, touch, bury.

use axum::http::Method;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::examples::RESERVATION;
use crate::{
    access::Scope,
    http::{
        extract::input,
        openapi::{Handled, Operation, Schemas, on},
        problem::Code,
        routes::{jobs, pop},
        schema::types,
        wire::{
            Bury, Finish, MAX_COUNT, MAX_WAIT, PopCount, PopOptions, PoppedJobs, Release, Touch,
            TransitionResponse,
        },
    },
    job::{Consumer, MAX_TTR, MIN_TTR, Millis},
};

/// Description of the topic in the answer for a job that has died.
const MOVED_TO: &str = "The topic that the job has moved to; only if it died and has a `dead_to`.";

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let (with_get, with_post) = pops(schemas);
    [with_get, with_post, touch(schemas), release(schemas), bury(schemas), finish(schemas)]
        .map(|operation| operation.tag("Consumers"))
        .into()
}

fn pops(schemas: &mut Schemas) -> (Operation, Operation) {
    let text = "Reserves ready jobs: within a bucket, the highest priority first, then the earliest due time. The pop \
                answers as soon as it has one job, and does not wait for `count` jobs. It returns fewer jobs if their \
                bodies are large. If the client disconnects before the answer is written, no attempt counts.";
    let answer = json!({ "jobs": [{
        "id": "call:1", "topic": "callbacks", "body": { "shop": 7 }, "attempt": 1,
        "max_attempts": 4, "priority": 7, "due_at": "2030-01-31T12:02:00.000Z",
        "expires_at": "2030-02-02T12:02:00.000Z",
        "created_at": "2030-01-31T12:00:00.000Z", "ttr": 90, "reservation": RESERVATION,
        "reserved_until": "2030-01-31T12:03:30.000Z",
    }] });
    let topics = types::topics_of_path(input::MAX_TOPICS).to_value();
    let mut popping = |handled, name, summary| {
        let about = format!(
            "A topic, or up to {} topics separated by commas (`a,b,c`): jobs of earlier topics come first.",
            input::MAX_TOPICS
        );
        let (count, consumer) = (schemas.request::<PopCount>(), schemas.request::<Consumer>());
        let wait = types::duration_in_query(Millis::ZERO, MAX_WAIT).to_value();
        let ttr = types::duration_in_query(MIN_TTR, MAX_TTR).to_value();
        let wait_text = format!(
            "Time to wait for the first job, from 0 to {} s. Default: 0.",
            MAX_WAIT.as_seconds()
        );
        let count_text = format!("Maximum number of jobs, from 1 to {MAX_COUNT}. Default: 1.");
        Operation::new(handled, "/topics/{topic}/pop", name, summary)
            .text(text)
            .needs(&[Scope::Pop])
            .in_path("topic", &topics, &about, "callbacks")
            .in_query("wait", false, &wait, &wait_text)
            .in_query("count", false, &count, &count_text)
            .in_query(
                "ttr",
                false,
                &ttr,
                "Replaces the jobs' own TTR for this attempt, from 1 s to 24 h.",
            )
            .in_query(
                "consumer",
                false,
                &consumer,
                "Name of the consumer, shown with the jobs that it holds and in their history.",
            )
            .gives(
                200,
                "The jobs; none if none is ready.",
                &schemas.answer::<PoppedJobs>(),
                &answer,
            )
            .with_header("Cache-Control", "Always `no-store`.", "no-store")
            .refuses(&[Code::Overloaded])
    };
    let (with_get, with_post) = (
        popping(on(Method::GET, pop::pop), "pop_jobs", "Pop jobs").without_head(),
        popping(on(Method::POST, pop::pop), "pop_jobs_by_post", "Pop jobs by POST"),
    );
    let body = schemas.request::<PopOptions>();
    (
        with_get,
        with_post.may_take(&body, &json!({ "wait": "1s", "count": 10, "consumer": "worker-1" })),
    )
}

/// Declares a route for a consumer's action on a job that it holds.
fn of_held<T: JsonSchema>(
    schemas: &mut Schemas,
    handled: Handled,
    [path, name, summary]: [&'static str; 3],
    text: &str,
    more: Value,
) -> Operation {
    let mut example = more;
    example["reservation"] = RESERVATION.into();
    Operation::new(handled, path, name, summary)
        .text(text)
        .needs(&[Scope::Pop])
        .with_id(schemas)
        .in_query(
            "reservation",
            false,
            &json!({ "type": "string" }),
            "The reservation, for a request without a body. It must not be in both.",
        )
        .may_take(&schemas.in_path::<T>(), &example)
        .refuses(&[
            Code::JobNotFound,
            Code::JobFinished,
            Code::ReservationLost,
            Code::NeverPopped,
            Code::ReservationRequired,
            Code::JobDamaged,
        ])
}

/// Returns the schema of the answer to a touch.
pub fn touched(schemas: &mut Schemas) -> Value {
    let (text, fields) = ("A job whose reservation was extended.", ["id", "reserved_until"]);
    schemas.some_of::<TransitionResponse>("HeldJob", text, &fields)
}

/// Returns the schema of the answer to a release.
pub fn moved(schemas: &mut Schemas) -> Value {
    let (text, fields) = ("A job that was given back.", ["id", "state", "due_at"]);
    let released = schemas.some_of::<TransitionResponse>("ReleasedJob", text, &fields);
    schemas.may_have::<TransitionResponse>("ReleasedJob", "topic", MOVED_TO);
    released
}

/// Returns the schema of the answer to a bury.
pub fn buried(schemas: &mut Schemas) -> Value {
    let (text, fields) = ("A job that was buried.", ["id", "state"]);
    let buried = schemas.some_of::<TransitionResponse>("BuriedJob", text, &fields);
    schemas.may_have::<TransitionResponse>("BuriedJob", "topic", MOVED_TO);
    buried
}

fn touch(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/touch", "touch_job", "Touch a job"];
    let text = "Extends the reservation: it ends one TTR from now. A reservation that has ended cannot be extended.";
    let answer = json!({ "id": "call:1", "reserved_until": "2030-01-31T12:05:00.000Z" });
    of_held::<Touch>(schemas, on(Method::POST, jobs::touch), names, text, json!({ "ttr": "5m" }))
        .gives(200, "The reservation is extended.", &touched(schemas), &answer)
}

fn release(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/release", "release_job", "Release a job"];
    let text = "Gives the job back for another attempt, with a new `body` if the request has one. If its attempts are \
                spent, or it would expire before the next attempt, the job becomes dead. With \
                `\"count_attempt\": false`, the attempt does not count and is never the last one.";
    let more = json!({ "delay": "2m", "count_attempt": false });
    let answer =
        json!({ "id": "call:1", "state": "delayed", "due_at": "2030-01-31T12:04:00.000Z" });
    of_held::<Release>(schemas, on(Method::POST, jobs::release), names, text, more)
        .gives(200, "The job waits for its next attempt, or is dead.", &moved(schemas), &answer)
        .refuses(&[Code::TopicFull, Code::StoreFull])
}

fn bury(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/bury", "bury_job", "Bury a job"];
    let text = "Makes the job dead without further attempts; with a `dead_to`, it is ready in that topic instead.";
    of_held::<Bury>(
        schemas,
        on(Method::POST, jobs::bury),
        names,
        text,
        json!({ "error": "no such shop" }),
    )
    .gives(
        200,
        "The job is dead.",
        &buried(schemas),
        &json!({ "id": "call:1", "state": "dead" }),
    )
}

fn finish(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/finish", "finish_job", "Finish a job"];
    let text = "Ends the job, because its work is done. With a `finished_retention`, the job is kept as `finished` for \
                this time, with the `result`; without one, it is removed. If the answer is lost, repeat the request: \
                for a kept job the answer is 204, and the first result stays; otherwise it is 404 `job_not_found`, \
                which means that the job is finished.";
    let more = json!({ "result": { "called": true } });
    of_held::<Finish>(schemas, on(Method::POST, jobs::finish), names, text, more)
        .done(204, "The job is finished.")
        .refuses(&[Code::ResultTooLarge, Code::ResultNotKept])
}
