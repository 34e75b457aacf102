//! `GET /docs`: docs/api.md as a page without scripts, rendered by `build.rs`.

use std::sync::LazyLock;

use axum::{http::HeaderMap, response::Response};

use crate::http::{call::Endpoint, file::Tagged, routing::Route};

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
pub fn style() -> Route {
    let style = async |headers: HeaderMap| STYLE.answer(&headers);
    Route::file("/docs/style.css", Endpoint::new(style))
}
