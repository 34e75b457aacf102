//! Finds the route of a request, once, by its path and method.

use std::{ops::Range, sync::Arc};

use axum::{
    http::{HeaderValue, Method, header::ALLOW},
    response::{IntoResponse, Response},
};

use super::{
    call::Endpoint,
    client::need::Need,
    problem::{Code, Problem},
    requests::{Counters, Requests},
};

/// Prefix under which the API is served, too.
const VERSION: &str = "/v1";
/// Name of all requests without a route, in metrics.
const UNKNOWN: &str = "unknown";

/// The routes of a listener.
pub struct Routes {
    table: matchit::Router<Route>,
    /// Route of all requests without a route; it takes no method.
    unknown: Route,
}

/// A path and what it takes.
pub struct Route {
    /// The path, with `{name}` for its only parameter; empty for requests without a route.
    path: &'static str,
    handlers: Vec<Handler>,
    /// Whether the path exists under `/v1`, too.
    is_versioned: bool,
    /// Whether callers are admitted before the handler. Files without secrets are for every caller.
    pub is_guarded: bool,
    /// Whether requests count in `limits.requests_in_flight`.
    pub is_limited: bool,
    /// Counters of the requests, shared by all listeners.
    pub counters: Arc<Counters>,
}

/// The handler of a method.
pub struct Handler {
    pub method: Method,
    /// Whether HEAD is answered like GET, without the body.
    pub takes_head: bool,
    pub need: Need,
    pub endpoint: Endpoint,
}

/// The route of a request.
pub struct Found<'a> {
    pub route: &'a Route,
    /// `None` if the route does not take the method.
    pub handler: Option<&'a Handler>,
    /// `/v1`, if the request used it, else empty.
    version: &'static str,
    /// Position of the parameter in the path of the request; empty if the route has none.
    pub parameter: Range<usize>,
}

impl Routes {
    /// Creates the table of a listener.
    ///
    /// # Panics
    /// Two routes have the same path.
    pub fn new(routes: impl IntoIterator<Item = Route>, requests: &Requests) -> Self {
        let mut table = matchit::Router::new();
        for route in routes {
            let counters = requests.counters(route.path);
            table.insert(route.path, Route { counters, ..route }).expect("one route a path");
        }
        Self { table, unknown: Route { counters: requests.counters(UNKNOWN), ..Route::new("") } }
    }

    /// Returns the route of a request, or the one of all requests without a route.
    pub fn find(&self, path: &str, method: &Method) -> Found<'_> {
        let (version, bare) = match path.strip_prefix(VERSION) {
            Some(bare) if bare.starts_with('/') => (VERSION, bare),
            _ => ("", path),
        };
        let matched = self.table.at(bare).ok();
        let matched = matched.filter(|found| version.is_empty() || found.value.is_versioned);
        let Some(matched) = matched else {
            return Found { route: &self.unknown, handler: None, version: "", parameter: 0..0 };
        };
        // Up to the parameter, a path has the same text as its route.
        let start = version.len() + matched.value.path.find('{').unwrap_or_default();
        let length = matched.params.iter().next().map_or(0, |(_, value)| value.len());
        let (route, handler) = (matched.value, matched.value.handler(method));
        Found { route, handler, version, parameter: start..start + length }
    }
}

impl Route {
    /// Creates a route at the root and under `/v1`, whose callers must be admitted, without
    /// handlers.
    pub fn new(path: &'static str) -> Self {
        Self {
            path,
            handlers: Vec::new(),
            is_versioned: true,
            is_guarded: true,
            is_limited: false,
            counters: Arc::default(),
        }
    }

    /// Removes the path under `/v1`.
    pub fn at_root_only(self) -> Self {
        Self { is_versioned: false, ..self }
    }

    /// Lets every caller in.
    pub fn for_everyone(self) -> Self {
        Self { is_guarded: false, ..self }
    }

    /// Counts requests in `limits.requests_in_flight`.
    pub fn limited(self) -> Self {
        Self { is_limited: true, ..self }
    }

    /// Adds the handler of a method.
    pub fn with(mut self, handler: Handler) -> Self {
        self.handlers.push(handler);
        self
    }

    /// Creates a file of the dashboard, at the root, for every caller.
    pub fn file(path: &'static str, endpoint: Endpoint) -> Self {
        let (method, need) = (Method::GET, Need::Nothing);
        let handler = Handler { method, takes_head: true, need, endpoint };
        Self::new(path).at_root_only().for_everyone().with(handler)
    }

    /// Returns whether this is the route of requests without a route.
    pub fn is_unknown(&self) -> bool {
        self.path.is_empty()
    }

    fn handler(&self, method: &Method) -> Option<&Handler> {
        self.handlers.iter().find(|handler| match *method {
            Method::HEAD => handler.method == Method::GET && handler.takes_head,
            _ => handler.method == *method,
        })
    }

    /// Answers a request whose method the route does not take.
    pub fn refuse_method(&self, method: &Method) -> Response {
        let methods = || self.handlers.iter().map(|handler| handler.method.as_str());
        let takes = methods().collect::<Vec<_>>().join(", ");
        let detail = format!("this route does not take {method}; it takes {takes}");
        let with_head = self.handlers.iter().flat_map(|handler| {
            let head = (handler.method == Method::GET && handler.takes_head).then_some("HEAD");
            [Some(handler.method.as_str()), head].into_iter().flatten()
        });
        let allow = HeaderValue::from_str(&with_head.collect::<Vec<_>>().join(", "));
        let mut response = Problem::new(Code::MethodNotAllowed, detail).into_response();
        response.headers_mut().extend(allow.ok().map(|allow| (ALLOW, allow)));
        response
    }
}

impl Found<'_> {
    /// Returns what the request needs. Without a handler it needs a token, unless the whole route
    /// is open: otherwise a caller without a token could find out which routes exist.
    pub fn need(&self) -> Need {
        let is_open = || self.route.handlers.iter().all(|handler| handler.need == Need::Nothing);
        match self.handler {
            Some(handler) => handler.need,
            None if !self.route.is_unknown() && is_open() => Need::Nothing,
            None => Need::AnyToken,
        }
    }

    /// Returns the path of the route with its prefix, for traces; `None` without a route.
    pub fn template(&self) -> Option<String> {
        (!self.route.is_unknown()).then(|| [self.version, self.route.path].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;

    fn route(path: &'static str, handlers: &[(Method, Need)]) -> Route {
        handlers.iter().cloned().fold(Route::new(path), |route, (method, need)| {
            let endpoint = Endpoint::new(async || "");
            let takes_head = !path.ends_with("/pop");
            route.with(Handler { method, takes_head, need, endpoint })
        })
    }

    fn routes() -> Routes {
        let (read, pop) = (Need::AnyOf(&[Scope::Read]), Need::AnyOf(&[Scope::Pop]));
        let page = Route::file("/assets/{name}", Endpoint::new(async || ""));
        let routes = [
            route("/healthz", &[(Method::GET, Need::Nothing)]),
            route("/jobs/{id}", &[(Method::GET, read), (Method::DELETE, Need::AnyToken)]),
            route("/topics/{topic}/pop", &[(Method::GET, pop), (Method::POST, pop)]),
            page,
        ];
        Routes::new(routes, &Requests::default())
    }

    #[test]
    fn a_route_needs_its_scope_under_both_paths() {
        let routes = routes();
        let need = |path, method| routes.find(path, &method).need();
        assert_eq!(need("/v1/jobs/a", Method::HEAD), Need::AnyOf(&[Scope::Read]));
        assert_eq!(need("/jobs/a", Method::DELETE), Need::AnyToken);
        assert_eq!(need("/jobs/a", Method::PUT), Need::AnyToken);
        assert_eq!(need("/v1/healthz", Method::POST), Need::Nothing);
        for unknown in ["/v1/health", "/v1/v1/healthz", "/v1", "/v1/", "/v1healthz", "/healthz/"] {
            let found = routes.find(unknown, &Method::GET);
            assert!(found.route.is_unknown() && found.need() == Need::AnyToken, "{unknown}");
        }
        assert!(routes.find("/v1/assets/a.js", &Method::GET).route.is_unknown());
        assert!(!routes.find("/assets/a.js", &Method::GET).route.is_guarded);
    }

    #[test]
    fn the_parameter_is_found_under_both_paths() {
        let routes = routes();
        for (path, expected) in [
            ("/jobs/order:1", "order:1"),
            ("/v1/jobs/order%2F1", "order%2F1"),
            ("/v1/topics/{topic}/pop", "{topic}"),
            ("/healthz", ""),
        ] {
            let found = routes.find(path, &Method::GET);
            assert_eq!(&path[found.parameter.clone()], expected, "{path}");
            let template = found.template().expect("a route");
            assert!(template.starts_with("/v1") == path.starts_with("/v1"), "{template}");
        }
    }

    #[test]
    fn a_refused_method_names_those_that_the_route_takes() {
        let routes = routes();
        for (path, allow) in [
            ("/jobs/a", "GET, HEAD, DELETE"),
            ("/topics/t/pop", "GET, POST"),
            ("/healthz", "GET, HEAD"),
        ] {
            let found = routes.find(path, &Method::PUT);
            assert!(found.handler.is_none());
            assert_eq!(found.route.refuse_method(&Method::PUT).headers()[ALLOW], allow, "{path}");
        }
        assert!(routes.find("/topics/t/pop", &Method::HEAD).handler.is_none());
    }
}
