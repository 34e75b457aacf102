//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::{operation::Operation, schemas::Schemas};
use crate::{access::Scope, http::schema::types, job::MAX_DEPTH};

/// Groups of operations, in reading order.
const TAGS: [(&str, &str); 8] = [
    ("Jobs", "Put, read, change, kick and delete one job."),
    ("Consumers", "Pop jobs, and finish, release, touch or bury them."),
    ("Batches", "Up to 1,000 jobs in one request, each with its own result."),
    ("Topics", "Read and change whole topics."),
    ("Push", "Let the server send the jobs of a topic to a URL."),
    ("Schedules", "Let the server put jobs by the clock."),
    ("Tokens", "Create, list and revoke access tokens."),
    ("Operations", "Health, metrics and documentation."),
];

/// Returns the OpenAPI document of these operations, which were declared with `schemas`.
pub fn document(operations: Vec<Operation>, mut schemas: Schemas) -> Value {
    let (mut paths, mut responses) = (Map::new(), Map::new());
    for operation in operations {
        let (method, path) = (operation.method.as_str().to_ascii_lowercase(), operation.path);
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation.finish(&mut responses, &mut schemas);
    }
    let tags = TAGS.map(|(name, description)| json!({ "name": name, "description": description }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "delay-queue",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A durable delay queue over HTTP",
            "description": introduction(),
            "license": { "name": "MIT OR Apache-2.0", "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [
            { "url": "/", "description": "This server." },
            { "url": "/v1", "description": "The same routes under their version." },
        ],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "responses": responses,
            "headers": headers(),
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "dq_ and 72 hexadecimal digits",
                "description": security(),
            } },
        },
    })
}

fn headers() -> Value {
    let text = |text: &str, example: &str| json!({ "description": text, "required": true, "schema": { "type": "string" }, "example": example });
    json!({
        "X-Request-Id": text(
            "The id that the request had, if it matches `[A-Za-z0-9._:-]{1,128}`; otherwise a new one.",
            "78029f1f746a1217",
        ),
        "Retry-After": text("Seconds to wait before the request is retried.", "1"),
        "WWW-Authenticate": text("The token or scope that the request lacks.", "Bearer realm=\"delay-queue\""),
    })
}

fn security() -> String {
    let scopes = Scope::ALL.map(|scope| format!("- `{scope}`: {}", types::allows(scope)));
    format!(
        "A server that has tokens requires one on every route except `/healthz`, `/readyz`, `/openapi.json` and \
         `/docs`. A server without tokens serves only loopback and requires none, unless `server.insecure` is \
         set. A token has scopes, each for the topics that match its patterns:\n\n{}",
        scopes.join("\n")
    )
}

/// Returns the rules that hold for all routes.
fn introduction() -> String {
    format!(
        "Put a job now, get it when it is due.\n\n\
         **Durations** are a number of seconds (`30`, `0.25`) or text with the units `ms s m h d w` (`\"500ms\"`, \
         `\"1h30m\"`, `\"7d\"`); text needs a unit, except in a query (`wait=20` is seconds). Durations are rounded up to \
         whole milliseconds, and refused above ten years. Answers give seconds as a number.\n\n\
         **Times** are RFC 3339 with an offset, or 13 digits of Unix milliseconds. Answers give RFC 3339 UTC with \
         milliseconds.\n\n\
         **Bodies** of jobs are any JSON value and are returned byte for byte. A body that common parsers reject is \
         refused: nesting above {MAX_DEPTH} levels, half of a surrogate pair, numbers beyond the range of a double.\n\n\
         **`null`** means absent, except where a field says otherwise. **Unknown** fields and parameters are refused \
         by name.\n\n\
         **Errors** are `application/problem+json` with a stable `code`, and `applied` says whether anything was \
         changed. A path that is not a route gets 404 `route_not_found`, a method that a route does not take 405 \
         `method_not_allowed` with `Allow`.\n\n\
         **Requests** have a body of `Content-Type: application/json` and no `Content-Encoding`."
    )
}
