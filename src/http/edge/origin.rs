//! Web pages that may call a server which requires no token.
//!
//! Every web page that is open in a browser can send requests to loopback. For requests of scripts,
//! browsers name the page in `Origin`. They send no `Origin` for images and links, with which a
//! page could call a GET that pops, but `Sec-Fetch-Site` shows that these come from another site. A
//! prefetch by speculation rules has `Sec-Fetch-Site: none`, like an address that the user types.
//! So a request that changes jobs must come from a script of the same origin, or from a program
//! other than a browser. Over plain HTTP to another machine, browsers send none of the `Sec-Fetch`
//! headers.
//!
//! A page whose host name resolves to 127.0.0.1 (DNS rebinding) has the same origin as the server.
//! Therefore the `Host` must be a name of this machine.

use std::net::IpAddr;

use axum::{
    body::HttpBody,
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method,
        header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, ORIGIN, RETRY_AFTER},
    },
};
use tower_http::cors::CorsLayer;

use super::finalize::REQUEST_ID;
use crate::{
    access::Exposure,
    http::problem::{Code, Problem},
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Headers by which browsers announce a prefetch or a prerender.
const PURPOSES: [HeaderName; 2] =
    [HeaderName::from_static("sec-purpose"), HeaderName::from_static("purpose")];

/// Host names and allowed origins of one server.
pub struct Origins {
    exposure: Exposure,
    /// The names of `server.hosts`.
    hosts: Vec<String>,
    /// The origins of `server.cors_origins`.
    allowed: Vec<String>,
}

impl Origins {
    /// Creates the rules from the values of `server.hosts` and `server.cors_origins`.
    pub fn new(exposure: Exposure, hosts: &[String], allowed: &[String]) -> Self {
        let hosts = hosts.iter().map(|host| host_name(host).to_owned()).collect();
        Self { exposure, hosts, allowed: allowed.to_vec() }
    }

    /// Returns the layer that admits pages of `server.cors_origins`; `None` if there are none.
    pub fn cors(&self) -> Option<CorsLayer> {
        let origins = self.allowed.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
        let origins: Vec<HeaderValue> = origins.collect();
        let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let cors = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(methods)
            .allow_headers([AUTHORIZATION, CONTENT_TYPE, REQUEST_ID])
            .expose_headers([LOCATION, RETRY_AFTER, REQUEST_ID]);
        (!self.allowed.is_empty()).then_some(cors)
    }

    /// Refuses a request whose `Host` is not a name of this server. If `server.hosts` is set, this
    /// check is always active, otherwise only on loopback while no token is required.
    ///
    /// # Errors
    /// 403 `forbidden_origin`.
    pub fn check_host(&self, request: &Request, requires_token: bool) -> Result<(), Problem> {
        let is_limited =
            !self.hosts.is_empty() || (!requires_token && self.exposure == Exposure::Local);
        match is_limited && !hosts(request).all(|host| self.is_ours(host)) {
            true => Err(forbidden("`Host` is not a name of this server (server.hosts)")),
            false => Ok(()),
        }
    }

    /// Refuses a request that a foreign web page may have sent.
    ///
    /// # Errors
    /// 403 `forbidden_origin`, 415 `unsupported_media_type`.
    pub fn check(&self, request: &Request) -> Result<(), Problem> {
        let headers = request.headers();
        if headers.keys().any(is_browser_header) {
            self.check_page(request)?;
        }
        match request.body().is_end_stream() {
            true => Ok(()),
            false => media_type(headers),
        }
    }

    /// Checks the headers that browsers add.
    fn check_page(&self, request: &Request) -> Result<(), Problem> {
        let headers = request.headers();
        let is_same = |origin: &str| {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some_and(|host| hosts(request).any(|own| own.eq_ignore_ascii_case(host)))
        };
        let mut origins = texts(headers, &ORIGIN).peekable();
        let has_origin = origins.peek().is_some();
        let is_allowed = |origin: &str| self.allowed.iter().any(|allowed| allowed == origin);
        if !origins.all(|origin| is_allowed(origin) || is_same(origin)) {
            return Err(forbidden("web pages of this `Origin` may not call (server.cors_origins)"));
        }
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        let changes = !reads || request.uri().path().ends_with("/pop");
        let is_own = |site: &str| site == "same-origin" || (site == "none" && !changes);
        if !has_origin && !texts(headers, &SEC_FETCH_SITE).all(is_own) {
            return Err(forbidden("web pages of other origins may not call (`Sec-Fetch-Site`)"));
        }
        if changes && !is_from_script(headers) {
            return Err(forbidden(
                "a browser may change jobs only from a script: this request opens, prefetches or \
                 embeds a page (`Sec-Fetch-Mode`, `Sec-Fetch-Dest`, `Sec-Purpose`)",
            ));
        }
        Ok(())
    }

    /// Returns whether a `Host` names this server.
    fn is_ours(&self, host: &str) -> bool {
        let name = host_name(host);
        let last_label = name.rsplit_once('.').map_or(name, |(_, label)| label);
        last_label.eq_ignore_ascii_case("localhost")
            || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// Returns whether this is one of the headers by which browsers name the sender of a request.
fn is_browser_header(name: &HeaderName) -> bool {
    name == ORIGIN || name.as_str().starts_with("sec-") || PURPOSES.contains(name)
}

/// Returns whether a script, or a program other than a browser, sent the request. Navigations,
/// prefetches, images and frames are not from scripts.
fn is_from_script(headers: &HeaderMap) -> bool {
    let is_fetch = |mode: &str| ["cors", "no-cors", "same-origin"].contains(&mode);
    texts(headers, &SEC_FETCH_MODE).all(is_fetch)
        && texts(headers, &SEC_FETCH_DEST).all(|dest| dest == "empty")
        && !PURPOSES.iter().any(|name| headers.contains_key(name))
}

/// Returns the names that a request was sent to: its `Host`, and over HTTP/2 its authority.
fn hosts(request: &Request) -> impl Iterator<Item = &str> {
    let named = request.uri().authority().map(|authority| authority.as_str());
    named.into_iter().chain(texts(request.headers(), &HOST))
}

/// Requires the `Content-Type` of JSON, which a page of another origin can send only after a CORS
/// preflight. Also accepts the type of HTML forms if there is no `Origin`: `curl -d` sends that
/// type for any body, and a browser sends an `Origin` with every form.
fn media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let mut types = texts(headers, &CONTENT_TYPE);
    let (first, more) = (types.next(), types.next());
    let essence = first.map(|value| value.split(';').next().unwrap_or_default().trim());
    let is = |kind: &str| essence.is_some_and(|essence| essence.eq_ignore_ascii_case(kind));
    let is_form = essence.is_none() || is("application/x-www-form-urlencoded");
    if more.is_none() && (is("application/json") || (is_form && !headers.contains_key(ORIGIN))) {
        return Ok(());
    }
    let detail = "the body must be JSON and say so: `Content-Type: application/json`";
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}

/// Returns all values of a header; `?`, which matches nothing, for a value that is not text.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"))
}

/// Returns the name or address of a `Host` without its port.
fn host_name(host: &str) -> &str {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.trim_end_matches('.')
}

fn forbidden(detail: &str) -> Problem {
    Problem::new(Code::ForbiddenOrigin, detail)
}

#[cfg(test)]
mod tests;
