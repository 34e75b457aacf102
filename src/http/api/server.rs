//! Routes for monitors, programs and readers.

use axum::http::Method;
use serde_json::json;

use crate::{
    access::Scope,
    http::{
        dashboard::docs,
        openapi::{Listener, Operation, Schemas, description, on},
        problem::Code,
        routes::{
            health::{self, Fine, Ready},
            metrics,
            store::{self, AcceptedLoss},
        },
    },
    metrics::text::{OPEN_METRICS, PROMETHEUS},
};

pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    [healthz(schemas), readyz(schemas), accept_loss(schemas), metrics(), described(), page()]
        .map(|operation| operation.tag("Operations"))
        .into()
}

fn healthz(schemas: &mut Schemas) -> Operation {
    let answer = json!({ "status": "ok" });
    Operation::new(
        on(Method::GET, health::healthz),
        "/healthz",
        "healthz",
        "Check that the process runs",
    )
    .text("Answers while the process runs.")
    .open()
    .served_on(Listener::Both)
    .gives(200, "The process runs.", &schemas.answer::<Fine>(), &answer)
}

fn readyz(schemas: &mut Schemas) -> Operation {
    Operation::new(on(Method::GET, health::readyz), "/readyz", "readyz", "Check that the server can be used")
        .text(
            "Answers 200 while the store can be written and the timers advance. If only a part of the queue works, \
             `status` is `degraded`, and `reasons` says why.",
        )
        .open()
        .served_on(Listener::Operations)
        .gives(200, "The server can be used.", &schemas.answer::<Ready>(), &json!({ "status": "ok" }))
        .refuses(&[Code::StoreUnavailable, Code::StoreReplaced, Code::JobDamaged, Code::StoreFull])
}

fn accept_loss(schemas: &mut Schemas) -> Operation {
    let path = "/store/accept-loss";
    Operation::new(on(Method::POST, store::accept_loss), path, "accept_loss", "Accept that jobs are lost")
        .text(
            "After Redis was emptied or replaced, all servers refuse calls with `store_replaced`. This request makes \
             them continue with the present data of Redis. A file store needs no such request: restart the server.",
        )
        .needs(&[Scope::Admin])
        .served_on(Listener::Operations)
        .may_take_nothing()
        .gives(200, "The loss is accepted.", &schemas.answer::<AcceptedLoss>(), &json!({ "buckets": 0 }))
}

fn metrics() -> Operation {
    let text = json!({ "schema": { "type": "string" } });
    Operation::new(on(Method::GET, metrics::metrics), "/metrics", "metrics", "Metrics for Prometheus")
        .text("In the text format of Prometheus, or in OpenMetrics if `Accept` requests it. The token needs `read` on all topics (`*`).")
        .needs(&[Scope::Read])
        .served_on(Listener::Operations)
        .gives_as(200, "The metrics.", PROMETHEUS, &text)
        .or_as(OPEN_METRICS, &text)
}

fn described() -> Operation {
    let content = json!({ "schema": { "type": "object" } });
    Operation::new(on(Method::GET, description), "/openapi.json", "openapi", "This description")
        .text("The description of this API in OpenAPI 3.1.")
        .open()
        .served_on(Listener::Description)
        .gives_as(200, "The description.", "application/json", &content)
        .with_header("ETag", "Changes with the server's version.", "\"78029f1f746a1217\"")
}

fn page() -> Operation {
    let page = json!({ "schema": { "type": "string" } });
    Operation::new(on(Method::GET, docs::page), "/docs", "docs", "This description for people")
        .text("A page for browsers. It is not under `/v1`.")
        .open()
        .served_on(Listener::Page)
        .gives_as(200, "The page.", "text/html; charset=utf-8", &page)
        .with_header("ETag", "Changes with the server's version.", "\"78029f1f746a1217\"")
}
