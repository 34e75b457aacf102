//! Tokens and scopes that routes require of their callers.

use std::collections::HashMap;

use axum::http::Method;

use crate::access::Scope;

/// Token or scope that a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: load balancers and orchestrators have no token, and call the server by its address.
    Nothing,
    /// Any token, where the server requires tokens.
    AnyToken,
    /// A token with any of these scopes; refusals name the first.
    AnyOf(&'static [Scope]),
}

/// Needs of all routes, by path.
#[derive(Debug, Default)]
pub struct Needs(HashMap<&'static str, PathNeeds>);

#[derive(Debug, Default)]
struct PathNeeds {
    methods: Vec<(Method, Need)>,
    /// Whether requests count in `limits.requests_in_flight`.
    is_limited: bool,
}

impl Needs {
    pub fn add(&mut self, path: &'static str, method: Method, need: Need, is_limited: bool) {
        let routes = self.0.entry(path).or_default();
        routes.methods.push((method, need));
        routes.is_limited |= is_limited;
    }

    /// Returns the need of a request by the path that its route was registered with, and whether
    /// the request counts in `limits.requests_in_flight`. A request without a route needs a token:
    /// otherwise a caller without one could find out which routes exist.
    pub fn of(&self, path: Option<&str>, method: &Method) -> (Need, bool) {
        let path = path.map(|path| path.strip_prefix("/v1").unwrap_or(path));
        let Some(PathNeeds { methods, is_limited }) = path.and_then(|path| self.0.get(path)) else {
            return (Need::AnyToken, false);
        };
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let found = methods.iter().find(|(one, _)| one == method);
        let is_open = methods.iter().all(|(_, need)| *need == Need::Nothing);
        let need = match found {
            Some((_, need)) => *need,
            None if is_open => Need::Nothing,
            None => Need::AnyToken,
        };
        (need, *is_limited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_needs_its_scope_under_both_paths() {
        let mut needs = Needs::default();
        needs.add("/healthz", Method::GET, Need::Nothing, false);
        needs.add("/jobs/{id}", Method::GET, Need::AnyOf(&[Scope::Read]), true);
        needs.add("/jobs/{id}", Method::DELETE, Need::AnyOf(&[Scope::Manage]), true);
        let of = |path, method| needs.of(path, &method).0;
        assert_eq!(of(Some("/v1/jobs/{id}"), Method::HEAD), Need::AnyOf(&[Scope::Read]));
        assert_eq!(of(Some("/jobs/{id}"), Method::DELETE), Need::AnyOf(&[Scope::Manage]));
        assert_eq!(of(Some("/jobs/{id}"), Method::PUT), Need::AnyToken);
        assert_eq!(of(Some("/v1/healthz"), Method::POST), Need::Nothing);
        assert_eq!(of(Some("/v1/health"), Method::GET), Need::AnyToken);
        assert_eq!(of(None, Method::GET), Need::AnyToken);
    }
}
