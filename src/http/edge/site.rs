//! Steps of a request between its connection and its handler, in order.

use std::{convert::Infallible, panic::AssertUnwindSafe, time::Instant};

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, header::CONTENT_LENGTH},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::CorsLayer;
use tracing::Instrument;

use super::{
    admit::Admission,
    finalize::{REQUEST_ID, request_id, unsupported, write},
    log::RequestLog,
    span,
};
use crate::http::{
    app::App,
    call::Call,
    client::{identity::Identity, peer::Peer},
    limits::{hold::hold, in_flight::InFlightPermit},
    problem::Problem,
    requests::UnansweredRequest,
    routing::{Found, Routes},
};

/// Everything that a listener serves.
pub struct Site {
    app: App,
    admission: Admission,
    routes: Routes,
    /// Answers requests without a route, by their headers and path.
    no_route: fn(&HeaderMap, &str) -> Response,
    /// `None` if `server.cors_origins` is empty.
    cors: Option<CorsLayer>,
}

/// A request that has not been admitted yet.
struct Arrival<'a> {
    found: Found<'a>,
    peer: Peer,
    log: RequestLog,
}

impl Site {
    /// Creates what a listener serves by these routes.
    pub fn new(
        app: App,
        admission: Admission,
        routes: Routes,
        no_route: fn(&HeaderMap, &str) -> Response,
    ) -> Self {
        let cors = admission.origins.cors();
        Self { app, admission, routes, no_route, cors }
    }

    /// Answers a request: counts, logs and traces it, and gives its answer an id.
    pub async fn answer(&self, request: Request, peer: &Peer) -> Response {
        let now = Instant::now();
        let peer = self.admission.proxies.resolve(peer, request.headers());
        let found = self.routes.find(request.uri().path(), request.method());
        let is_head = request.method() == Method::HEAD;
        let unanswered = UnansweredRequest::new(&found.route.counters, request.method(), now);
        let id = request_id(&request);
        let log = RequestLog::new(&request, id.clone(), peer.clone(), now);
        let span = span::request(&request, &id, &found, peer.scheme());
        let arrival = Arrival { found, peer, log };
        let mut response = if let Some(problem) = unsupported(&request) {
            problem.into_response()
        } else if span.is_disabled() {
            self.guard(request, &arrival).await
        } else {
            self.guard(request, &arrival).instrument(span.clone()).await
        };
        span::record_status(&span, response.status());
        let problem = response.extensions_mut().remove::<Problem>();
        arrival.log.answered(&response, problem.as_ref(), &self.app.refused);
        if let Some(problem) = problem {
            write(&mut response, problem, &id);
        }
        response.headers_mut().insert(REQUEST_ID, id);
        if is_head {
            remove_body(&mut response);
        }
        unanswered.answered(response.status());
        response
    }

    /// Lets every caller of an unguarded route in. Of the other requests, answers a browser's
    /// preflight request, which has no token, and admits the rest.
    async fn guard(&self, request: Request, arrival: &Arrival<'_>) -> Response {
        if !arrival.found.route.is_guarded {
            let identity = Identity::of_any(arrival.peer.clone());
            return self.call(request, arrival, identity).await;
        }
        let Some(cors) = &self.cors else { return self.admit(request, arrival).await };
        let admit = |request| self.admit(request, arrival).map(Ok::<_, Infallible>);
        let Ok(response) = cors.layer(service_fn(admit)).oneshot(request).await;
        response
    }

    /// Calls the handler if the caller may call it.
    async fn admit(&self, request: Request, arrival: &Arrival<'_>) -> Response {
        let Arrival { found, peer, log } = arrival;
        let identity = match self.admission.identify(&request, peer.clone(), found.need()) {
            Ok(identity) => identity,
            Err(problem) => return problem.into_response(),
        };
        log.admitted(identity.clone());
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let response = self.call(request, arrival, identity.clone()).await;
        hold(&self.app.memory, &identity, is_read, response).await
    }

    /// Calls the handler if `limits.requests_in_flight` has room, and answers a panic, which the
    /// panic hook has logged, with a problem.
    async fn call(&self, request: Request, arrival: &Arrival<'_>, identity: Identity) -> Response {
        let Found { route, handler, parameter, .. } = &arrival.found;
        let permit = match route.is_limited {
            true => self.app.in_flight.permit(),
            false => Ok(InFlightPermit::default()),
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(problem) => return problem.into_response(),
        };
        let Some(handler) = handler else {
            return match route.is_unknown() {
                true => (self.no_route)(request.headers(), request.uri().path()),
                false => route.refuse_method(request.method()),
            };
        };
        let (app, parameter) = (self.app.clone(), parameter.clone());
        let call = Call { app, identity, permit, parameter };
        let answer = handler.endpoint.call(request, call);
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        answer.unwrap_or_else(|_| Problem::internal().into_response())
    }
}

/// Removes the body of the answer to a HEAD, and says how long it would have been.
fn remove_body(response: &mut Response) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
}
