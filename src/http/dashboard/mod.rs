//! The dashboard at `/`: one page and its assets, from inside the binary.
//!
//! The page uses the public API alone, so it needs no rights of its own: its files are served
//! without a token, and what it then asks for is checked like any other request.

use std::sync::LazyLock;

use axum::{
    Router,
    extract::Path,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{
            ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
            REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
    routing::get,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::http::problem::{Code, Problem};

/// A file of the page.
#[derive(Clone, Copy)]
struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

/// The assets with these names; the type follows from the end of the name.
macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        [$(Asset {
            name: $name,
            kind: kind($name.as_bytes()),
            content: include_bytes!(concat!("assets/", $name)),
        }),+]
    };
}

const INDEX: Asset = assets!("index.html")[0];
const NOT_FOUND: Asset = assets!("not_found.html")[0];

static ASSETS: &[Asset] = &assets![
    "actions.js",
    "api.js",
    "body.js",
    "chart.js",
    "coming.js",
    "dialog.js",
    "dom.js",
    "errors.js",
    "format.js",
    "icon.svg",
    "job.js",
    "jobs.js",
    "json.js",
    "live.js",
    "login.js",
    "main.js",
    "overview.js",
    "style.css",
    "theme.js",
    "topic.js",
    "topics.js",
    "trouble.js",
    "uPlot.LICENSE",
    "uPlot.css",
    "uPlot.js",
    "verdict.js",
];

/// No script or style but our own files, no other host, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

const fn kind(name: &[u8]) -> &'static str {
    match name {
        [.., b'h', b't', b'm', b'l'] => "text/html; charset=utf-8",
        [.., b'.', b'j', b's'] => "text/javascript; charset=utf-8",
        [.., b'.', b'c', b's', b's'] => "text/css; charset=utf-8",
        [.., b'.', b's', b'v', b'g'] => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// All assets change together, with the binary.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let all = [&INDEX, &NOT_FOUND].into_iter().chain(ASSETS);
    let hashes: Vec<u8> = all.flat_map(|asset| xxh3_64(asset.content).to_le_bytes()).collect();
    HeaderValue::from_str(&format!("\"{:016x}\"", xxh3_64(&hashes))).expect("hexadecimal digits")
});

/// Its routes, which need no token.
pub fn routes() -> Router {
    Router::new()
        .route("/", get(async |headers: HeaderMap| INDEX.answer(&headers)))
        .route("/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => asset.answer(&headers),
        None => not_found(&headers, "the dashboard has no such file"),
    }
}

/// Answers a request without a route: with a page for people, a problem for programs.
pub fn not_found(headers: &HeaderMap, detail: &str) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return (StatusCode::NOT_FOUND, NOT_FOUND.whole()).into_response();
    }
    Problem::new(Code::RouteNotFound, detail).into_response()
}

impl Asset {
    /// The asset, or that the client has it. Browsers ask each time, so that a new binary is seen
    /// at once.
    fn answer(&self, headers: &HeaderMap) -> Response {
        if headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == *TAG) {
            return (StatusCode::NOT_MODIFIED, [(ETAG, TAG.clone())]).into_response();
        }
        let mut response = self.whole().into_response();
        response.headers_mut().insert(ETAG, TAG.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    fn whole(&self) -> impl IntoResponse {
        let headers = [
            (CONTENT_TYPE, self.kind),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (OPENER_POLICY, "same-origin"),
        ];
        (headers, self.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_page_stays_small() {
        let size: usize =
            [&INDEX, &NOT_FOUND].into_iter().chain(ASSETS).map(|asset| asset.content.len()).sum();
        assert!(size < 155_000, "{size} bytes");
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
        let mut served: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        served.sort_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(files, served);
    }

    #[test]
    fn the_page_is_painted_before_its_scripts_are_asked_for() {
        let page = String::from_utf8_lossy(INDEX.content);
        let (head, body) = page.split_once("<body>").expect("a body");
        // What sets the theme is one of the first paint.
        assert_eq!(head.matches(".js\"").count(), 1, "{head}");
        assert!(head.contains("assets/theme.js"), "{head}");
        let last = body.rsplit("</header>").next().expect("an end");
        assert!(last.contains("assets/main.js") && last.contains("assets/uPlot.js"), "{last}");
    }
}
