//! The dashboard at `/`: one page and its assets, embedded in the binary.
//!
//! The page only uses the public API, so its files need no token.

pub mod docs;

use std::{borrow::Cow, sync::LazyLock};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response},
};

use crate::http::{
    call::Endpoint,
    extract::input::PathFile,
    file::{File, tag},
    problem::{Code, Problem},
    routing::Route,
};

/// Embeds an asset. The end of its name determines its content type.
macro_rules! asset {
    ($name:literal) => {
        File {
            kind: content_type($name.as_bytes()),
            content: Cow::Borrowed(include_bytes!(concat!("assets/", $name))),
            policy: POLICY,
        }
    };
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => { [$(($name, asset!($name))),+] };
}

static INDEX: File = asset!("index.html");
static NOT_FOUND: File = asset!("not_found.html");

static ASSETS: &[(&str, File)] = &assets![
    "actions.js",
    "api.js",
    "body.js",
    "bulk.js",
    "chart.js",
    "dialog.js",
    "dom.js",
    "errors.js",
    "filters.js",
    "format.js",
    "groups.js",
    "icon.svg",
    "job.js",
    "jobs.js",
    "json.js",
    "live.js",
    "login.js",
    "main.js",
    "overview.js",
    "pages.js",
    "place.js",
    "policy.js",
    "push.js",
    "push_settings.js",
    "rows.js",
    "schedule.js",
    "schedule_actions.js",
    "schedule_preview.js",
    "schedule_settings.js",
    "schedules.js",
    "settings.js",
    "style.css",
    "targets.js",
    "theme.js",
    "timeline.js",
    "topic.js",
    "topics.js",
    "trouble.js",
    "upcoming.js",
    "uPlot.css",
    "uPlot.js",
    "uPlot.LICENSE",
    "verdict.js",
];

/// Content security policy: only the server's own scripts and styles, no other hosts, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const fn content_type(name: &[u8]) -> &'static str {
    match name {
        [.., b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// The entity tag of all assets, which change only together with the binary.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| tag(all()));

fn all() -> impl Iterator<Item = &'static File> {
    [&INDEX, &NOT_FOUND].into_iter().chain(ASSETS.iter().map(|(_, file)| file))
}

/// Returns the dashboard's routes, which need no token.
pub fn routes() -> [Route; 3] {
    let index = async |headers: HeaderMap| INDEX.answer(&headers, &TAG);
    [
        Route::file("/", Endpoint::new(index)),
        Route::file("/assets/{name}", Endpoint::new(asset)),
        docs::style(),
    ]
}

async fn asset(PathFile(name): PathFile, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|(known, _)| *known == name) {
        Some((_, file)) => file.answer(&headers, &TAG),
        None => not_found(&headers, "the dashboard has no such file"),
    }
}

/// Answers a request without a route: browsers get a page, programs a problem.
pub fn not_found(headers: &HeaderMap, detail: &str) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return (StatusCode::NOT_FOUND, NOT_FOUND.whole()).into_response();
    }
    Problem::new(Code::RouteNotFound, detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_assets_together_stay_small() {
        let size: usize = all().map(|file| file.content.len()).sum();
        assert!(size < 240_000, "{size} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/dashboard/assets");
        let files = std::fs::read_dir(folder).expect("the folder");
        let mut files: Vec<String> = files
            .map(|file| file.expect("a file").file_name().into_string().expect("text"))
            .filter(|name| !name.ends_with(".html"))
            .collect();
        files.sort_by_key(|name| name.to_ascii_lowercase());
        let mut served: Vec<&str> = ASSETS.iter().map(|(name, _)| *name).collect();
        served.sort_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(files, served);
    }

    #[test]
    fn the_page_is_painted_before_its_scripts_are_requested() {
        let page = String::from_utf8_lossy(&INDEX.content);
        let (head, body) = page.split_once("<body>").expect("a body");
        // The theme must be set before the first paint.
        assert_eq!(head.matches(".js\"").count(), 1, "{head}");
        assert!(head.contains("assets/theme.js"), "{head}");
        let last = body.rsplit("</header>").next().expect("an end");
        assert!(last.contains("assets/main.js") && last.contains("assets/uPlot.js"), "{last}");
    }
}
