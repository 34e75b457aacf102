//! The description of this API, as OpenAPI 3.1 has it: `GET /openapi.json`, and `GET /docs` for people.
//!
//! It is made from the code that it describes: schemas from the types that read requests and write answers, limits
//! from the constants that are checked, problems from their codes. `operations` adds what types cannot say: which
//! route takes and gives what. Tests hold it to the router, to docs/api.md, and to what a server really answers.

mod document;
mod no_route;
mod operation;
mod operations;
mod page;
mod schemas;

use std::{borrow::Cow, sync::LazyLock};

pub use self::no_route::{methods_of, no_route};

use axum::{
    Router,
    http::{HeaderMap, HeaderValue},
    response::Response,
    routing::get,
};

use crate::http::file::{File, tag};

/// A file that is made once, and its tag.
type Made = LazyLock<(File, HeaderValue)>;

static DESCRIPTION: Made = LazyLock::new(|| {
    let text = serde_json::to_string(&document::document()).unwrap_or_default();
    made("application/json", (text + "\n").into_bytes())
});
static PAGE: Made = LazyLock::new(|| {
    made("text/html; charset=utf-8", page::page(&document::document()).into_bytes())
});
static STYLE: Made =
    LazyLock::new(|| made("text/css; charset=utf-8", include_bytes!("page/style.css").as_slice()));

/// Styles and the theme's script are our own files; nothing else, and no other host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn made(kind: &'static str, content: impl Into<Cow<'static, [u8]>>) -> (File, HeaderValue) {
    let file = File { kind, content: content.into(), policy: POLICY };
    let tag = tag([&file]);
    (file, tag)
}

fn answer(made: &'static Made, headers: &HeaderMap) -> Response {
    let (file, tag) = &**made;
    file.answer(headers, tag)
}

/// The description.
pub async fn description(headers: HeaderMap) -> Response {
    answer(&DESCRIPTION, &headers)
}

/// The same for people.
pub async fn page(headers: HeaderMap) -> Response {
    answer(&PAGE, &headers)
}

/// The route of what the page has beside the dashboard's style.
pub fn style() -> Router {
    Router::new().route("/docs/style.css", get(async |headers: HeaderMap| answer(&STYLE, &headers)))
}
