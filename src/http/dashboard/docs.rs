//! `GET /docs`: docs/api.md as a page without scripts, rendered by `build.rs`.

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

pub async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

/// Returns the route of the page's own style sheet, which extends the dashboard's.
pub fn style<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/docs/style.css", get(async |headers: HeaderMap| STYLE.answer(&headers)))
}
