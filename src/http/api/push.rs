//! Routes of the pushes of topics.

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    access::Scope,
    http::{
        openapi::{Handled, Operation, Schemas, on},
        problem::Code,
        routes::push,
        wire::{PushResponse, PutPush, TestResponse},
    },
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let all = [get(schemas), put(schemas), delete(schemas)];
    let acts = [pause(schemas), resume(schemas), test(schemas)];
    all.into_iter().chain(acts).map(|operation| operation.tag("Push")).collect()
}

fn declare(
    schemas: &mut Schemas,
    handled: Handled,
    path: &'static str,
    (name, summary): (&str, &str),
    scopes: &'static [Scope],
) -> Operation {
    Operation::new(handled, path, name, summary).needs(scopes).with_topic(schemas)
}

const PUSH: &str = "/topics/{topic}/push";

fn example(state: &str) -> Value {
    json!({
        "topic": "callbacks", "url": "https://shop.example/hooks", "concurrency": 8, "rate": "100/s", "timeout": 10,
        "secret_count": 0, "headers": { "x-tenant": "7" }, "batch": { "max": 50, "linger": 0.5 },
        "backoff": [5, 300], "state": state, "reason": (state == "paused").then_some("requested"), "set_by": "shop", "in_flight": 0,
        "rates": { "delivered": 0.0, "failed": 0.0 }, "last_failures": [],
    })
}

fn get(schemas: &mut Schemas) -> Operation {
    let names = ("get_push", "Get the push of a topic");
    let scopes = &[Scope::Push, Scope::Read];
    declare(schemas, on(Method::GET, push::get), PUSH, names, scopes)
        .text("The push as it is set, and its state on this server. Secrets are not shown.")
        .gives(200, "The push.", &schemas.answer::<PushResponse>(), &example("running"))
        .refuses(&[Code::PushNotFound])
}

fn put(schemas: &mut Schemas) -> Operation {
    let request = json!({
        "url": "https://shop.example/hooks", "concurrency": 8, "rate": "100/s", "timeout": "10s",
        "headers": { "x-tenant": "7" }, "batch": { "max": 50, "linger": "500ms" }, "backoff": ["5s", "5m"],
    });
    let names = ("set_push", "Set the push of a topic");
    let answer = schemas.answer::<PushResponse>();
    declare(schemas, on(Method::PUT, push::put), PUSH, names, &[Scope::Push])
        .text(
            "Replaces the push. A field that is left out gets its default, except `secrets`. A paused push stays \
             paused. The request may contain the whole answer of a `GET`.",
        )
        .takes(&schemas.request::<PutPush>(), &request)
        .gives(200, "The push was replaced.", &answer, &example("running"))
        .gives(201, "The push was created.", &answer, &example("running"))
}

fn delete(schemas: &mut Schemas) -> Operation {
    let names = ("delete_push", "Remove the push of a topic");
    declare(schemas, on(Method::DELETE, push::delete), PUSH, names, &[Scope::Push])
        .text("The jobs of the topic stay, for consumers that pop them.")
        .may_take_nothing()
        .done(204, "The push was removed.")
        .refuses(&[Code::PushNotFound])
}

fn pause(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/topics/{topic}/push/pause", ("pause_push", "Pause a push"));
    declare(schemas, on(Method::POST, push::pause), path, names, &[Scope::Push])
        .text("No requests are sent until the push is resumed. Consumers may still pop the jobs.")
        .may_take_nothing()
        .gives(200, "The push is paused.", &schemas.answer::<PushResponse>(), &example("paused"))
        .refuses(&[Code::PushNotFound])
}

fn resume(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/topics/{topic}/push/resume", ("resume_push", "Resume a push"));
    declare(schemas, on(Method::POST, push::resume), path, names, &[Scope::Push])
        .text("Resumes the requests, whatever the reason for the pause.")
        .may_take_nothing()
        .gives(200, "The push was resumed.", &schemas.answer::<PushResponse>(), &example("running"))
        .refuses(&[Code::PushNotFound])
}

fn test(schemas: &mut Schemas) -> Operation {
    let (path, names) = ("/topics/{topic}/push/test", ("test_push", "Test a push"));
    let answer = json!({
        "request": {
            "method": "POST", "url": "https://shop.example/hooks",
            "headers": { "content-type": "application/json", "x-tenant": "7" }, "body": "{\"test\":true}",
        },
        "response": { "status": 200, "body": "ok", "seconds": 0.02 },
    });
    declare(schemas, on(Method::POST, push::test), path, names, &[Scope::Push])
        .text(
            "Sends a request with a made-up job and returns the request and its answer. No job changes, and the \
             answer does not count for the state of the target.",
        )
        .may_take_nothing()
        .gives(
            200,
            "The request, and its answer or error.",
            &schemas.answer::<TestResponse>(),
            &answer,
        )
        .refuses(&[Code::PushNotFound])
}
