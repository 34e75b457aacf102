//! Files for browsers, embedded in the binary.

use std::borrow::Cow;

use axum::{
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
            REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
};
use xxhash_rust::xxh3::xxh3_64;

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Embedded file.
pub struct File {
    /// `Content-Type` of the file.
    pub kind: &'static str,
    pub content: Cow<'static, [u8]>,
    /// `Content-Security-Policy`: where the page may load from.
    pub policy: &'static str,
}

impl File {
    /// Returns the file, or 304. With `no-cache`, browsers ask each time and notice a new binary.
    pub fn answer(&'static self, headers: &HeaderMap, tag: &HeaderValue) -> Response {
        if headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag) {
            return (StatusCode::NOT_MODIFIED, [(ETAG, tag.clone())]).into_response();
        }
        let mut response = self.whole();
        response.headers_mut().insert(ETAG, tag.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// Returns the file without headers for caching.
    pub fn whole(&'static self) -> Response {
        let headers = [
            (CONTENT_TYPE, self.kind),
            (CONTENT_SECURITY_POLICY, self.policy),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (OPENER_POLICY, "same-origin"),
        ];
        (headers, &*self.content).into_response()
    }
}

/// File with its own `ETag`.
pub struct Tagged {
    file: File,
    tag: HeaderValue,
}

impl Tagged {
    /// Allows our own styles, scripts and images, and no other host.
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    /// Creates a file with this `Content-Type`.
    pub fn new(kind: &'static str, content: impl Into<Cow<'static, [u8]>>) -> Self {
        let file = File { kind, content: content.into(), policy: Self::POLICY };
        let tag = tag([&file]);
        Self { file, tag }
    }

    pub fn answer(&'static self, headers: &HeaderMap) -> Response {
        self.file.answer(headers, &self.tag)
    }
}

/// Returns the `ETag` of files that change together.
pub fn tag<'a>(files: impl IntoIterator<Item = &'a File>) -> HeaderValue {
    let hashes = files.into_iter().flat_map(|file| xxh3_64(&file.content).to_le_bytes());
    let hash = xxh3_64(&hashes.collect::<Vec<u8>>());
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).expect("hexadecimal digits")
}
