//! Routes of consumers: pop, finish, release, touch, bury.

use axum::http::Method;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{examples::RESERVATION, jobs::in_state};
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

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let (with_get, with_post) = pops(schemas);
    [with_get, with_post, touch(schemas), release(schemas), bury(schemas), finish(schemas)]
        .map(|operation| operation.tag("Consumers"))
        .into()
}

fn pops(schemas: &mut Schemas) -> (Operation, Operation) {
    let text = "Reserves ready jobs, the earliest due first within a bucket. It answers as soon as it has one job, and \
                does not wait for `count` of them. Of large bodies it returns fewer. A client that hangs up before \
                its answer is written costs no attempt.";
    let answer = json!({ "jobs": [{
        "id": "call:1", "topic": "callbacks", "body": { "shop": 7 }, "attempt": 1,
        "max_attempts": 4, "due_at": "2030-01-31T12:02:00.000Z",
        "created_at": "2030-01-31T12:00:00.000Z", "ttr": 90, "reservation": RESERVATION,
        "reserved_until": "2030-01-31T12:03:30.000Z",
    }] });
    let topics = types::topics_of_path(input::MAX_TOPICS).to_value();
    let mut popping = |handled, name, summary| {
        let about = format!(
            "The topic, or up to {} with commas (`a,b,c`): jobs of earlier topics come first.",
            input::MAX_TOPICS
        );
        let (count, consumer) = (schemas.request::<PopCount>(), schemas.request::<Consumer>());
        let wait = types::duration_in_query(Millis::ZERO, MAX_WAIT).to_value();
        let ttr = types::duration_in_query(MIN_TTR, MAX_TTR).to_value();
        let wait_text = format!(
            "How long to wait for the first job, from 0 to {} s. Default: 0.",
            MAX_WAIT.as_seconds()
        );
        let count_text = format!("How many jobs at most, from 1 to {MAX_COUNT}. Default: 1.");
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
            "The same as in the body, for requests without one. Not in both.",
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
pub fn held(schemas: &mut Schemas) -> Value {
    let (text, fields) = ("A job that is held on.", ["id", "reserved_until"]);
    schemas.some_of::<TransitionResponse>("HeldJob", text, &fields)
}

/// Returns the schema of the answer to a release.
pub fn moved(schemas: &mut Schemas) -> Value {
    let (text, fields) = ("A job that was given back.", ["id", "state", "due_at"]);
    schemas.some_of::<TransitionResponse>("ReleasedJob", text, &fields)
}

fn touch(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/touch", "touch_job", "Touch a job"];
    let text = "Holds the job for another TTR from now. A reservation that has expired is lost.";
    let answer = json!({ "id": "call:1", "reserved_until": "2030-01-31T12:05:00.000Z" });
    of_held::<Touch>(schemas, on(Method::POST, jobs::touch), names, text, json!({ "ttr": "5m" }))
        .gives(200, "The job is held.", &held(schemas), &answer)
}

fn release(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/release", "release_job", "Release a job"];
    let text = "Gives the job back for another attempt. If its attempts are spent, it is dead.";
    let more = json!({ "error": "the shop does not answer" });
    let answer =
        json!({ "id": "call:1", "state": "delayed", "due_at": "2030-01-31T12:04:00.000Z" });
    of_held::<Release>(schemas, on(Method::POST, jobs::release), names, text, more).gives(
        200,
        "The job waits for its next attempt, or is dead.",
        &moved(schemas),
        &answer,
    )
}

fn bury(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/bury", "bury_job", "Bury a job"];
    let text = "Makes the job dead without further attempts.";
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
        &in_state(schemas),
        &json!({ "id": "call:1", "state": "dead" }),
    )
}

fn finish(schemas: &mut Schemas) -> Operation {
    let names = ["/jobs/{id}/finish", "finish_job", "Finish a job"];
    let text = "The work is done: the job is gone or, with a `finished_retention`, `finished` for this time, with the \
                `result`. A finish that is repeated after a lost answer gets 204 if the job is kept, and the first \
                result stays; otherwise it gets 404 `job_not_found`: take it as done.";
    let more = json!({ "result": { "called": true } });
    of_held::<Finish>(schemas, on(Method::POST, jobs::finish), names, text, more)
        .done(204, "The job is finished.")
        .refuses(&[Code::ResultTooLarge, Code::ResultNotKept])
}
