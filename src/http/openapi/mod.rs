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

use std::sync::LazyLock;

pub use self::no_route::{methods_of, no_route};

use axum::{
    Router,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
            REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
    routing::get,
};
use xxhash_rust::xxh3::xxh3_64;

/// One of the files, made once: it changes with the binary alone.
struct File {
    kind: &'static str,
    text: String,
    tag: HeaderValue,
}

static DESCRIPTION: LazyLock<File> = LazyLock::new(|| {
    let text = serde_json::to_string(&document::document()).unwrap_or_default();
    File::new("application/json", text + "\n")
});
static PAGE: LazyLock<File> =
    LazyLock::new(|| File::new("text/html; charset=utf-8", page::page(&document::document())));
static STYLE: LazyLock<File> = LazyLock::new(|| {
    File::new("text/css; charset=utf-8", include_str!("page/style.css").to_owned())
});

/// Styles and the theme's script are our own files; nothing else, and no other host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The description.
pub async fn description(headers: HeaderMap) -> Response {
    DESCRIPTION.answer(&headers)
}

/// The same for people.
pub async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

/// The route of what the page has beside the dashboard's style.
pub fn style() -> Router {
    Router::new().route("/docs/style.css", get(async |headers: HeaderMap| STYLE.answer(&headers)))
}

impl File {
    fn new(kind: &'static str, text: String) -> Self {
        let tag = format!("\"{:016x}\"", xxh3_64(text.as_bytes()));
        let tag = HeaderValue::from_str(&tag).expect("hexadecimal digits");
        Self { kind, text, tag }
    }

    /// The file, or that the client has it.
    fn answer(&'static self, headers: &HeaderMap) -> Response {
        if headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == self.tag) {
            return (StatusCode::NOT_MODIFIED, [(ETAG, self.tag.clone())]).into_response();
        }
        let fixed = [
            (CONTENT_TYPE, self.kind),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (OPENER_POLICY, "same-origin"),
        ];
        (fixed, [(ETAG, self.tag.clone())], self.text.as_str()).into_response()
    }
}
