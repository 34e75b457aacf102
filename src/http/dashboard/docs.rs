//! `GET /docs`: docs/api.md as a page, which `build.rs` renders. It needs no script and no other file than its styles.

use std::sync::LazyLock;

use axum::{Router, http::HeaderMap, response::Response, routing::get};

use crate::http::file::Tagged;

static PAGE: LazyLock<Tagged> = LazyLock::new(|| {
    Tagged::new(
        "text/html; charset=utf-8",
        include_bytes!(concat!(env!("OUT_DIR"), "/api.html")).as_slice(),
    )
});
static STYLE: LazyLock<Tagged> = LazyLock::new(|| {
    Tagged::new("text/css; charset=utf-8", include_bytes!("docs/style.css").as_slice())
});

/// Answers with the page.
pub async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

/// The route of what the page has beside the dashboard's style.
pub fn style<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/docs/style.css", get(async |headers: HeaderMap| STYLE.answer(&headers)))
}
