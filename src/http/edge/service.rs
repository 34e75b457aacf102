//! Steps of a request between its connection and its handler, in order.
//!
//! All steps are one service, because every layer of a router costs a boxed service, its clone and
//! a boxed future for each request.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    response::{IntoResponse, Response},
};
use futures::{FutureExt, future::BoxFuture};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_http::cors::CorsLayer;
use tracing::Instrument;

use super::{
    admit::Admission,
    finalize::{REQUEST_ID, request_id, unsupported, write},
    forwarded::TrustedProxies,
    log::RequestLog,
    span,
};
use crate::http::{
    app::App,
    client::{need::Needs, peer::Peer},
    extract::input::traceparent,
    limits::hold::hold,
    problem::Problem,
};

/// Layer around every handler of a listener.
#[derive(Clone)]
pub struct Edge {
    app: App,
    proxies: TrustedProxies,
    /// `None` for the dashboard's files and the API's description, which every caller may read.
    guard: Option<Arc<Guard>>,
}

/// Checks before the handler of a route that is not open to every caller.
struct Guard {
    admission: Admission,
    needs: Needs,
    /// `None` if `server.cors_origins` is empty.
    cors: Option<CorsLayer>,
}

impl Edge {
    /// Creates an edge that admits every caller.
    pub fn open(app: App, proxies: TrustedProxies) -> Self {
        Self { app, proxies, guard: None }
    }

    /// Returns this edge with a guard, which admits a caller only if it has what the route needs.
    pub fn guarded(&self, admission: Admission, needs: Needs) -> Self {
        let guard = Guard { cors: admission.origins.cors(), admission, needs };
        Self { guard: Some(Arc::new(guard)), ..self.clone() }
    }

    /// Counts, logs and traces the request, and gives its answer an id.
    async fn serve<S: Handler>(&self, mut request: Request, handler: S) -> Response {
        self.proxies.resolve(&mut request);
        let in_progress = self.app.requests.begin(&request);
        let id = request_id(&request);
        let request_log = RequestLog::new(&request, id.clone());
        let scheme = request.extensions().get::<Peer>().map(Peer::scheme);
        let span = span::request(&request, &id, scheme, || traceparent(request.headers()));
        let mut response = if let Some(problem) = unsupported(&request) {
            problem.into_response()
        } else if span.is_disabled() {
            self.apply_cors(request, handler, &request_log).await
        } else {
            self.apply_cors(request, handler, &request_log).instrument(span.clone()).await
        };
        span::record_status(&span, response.status());
        let problem = response.extensions_mut().remove::<Problem>();
        request_log.answered(&response, problem.as_ref(), &self.app.refused);
        if let Some(problem) = problem {
            write(&mut response, problem, &id);
        }
        response.headers_mut().insert(REQUEST_ID, id);
        in_progress.answered(response.status());
        response
    }

    /// Answers a browser's preflight request, which has no token, and admits all other requests.
    async fn apply_cors<S: Handler>(
        &self,
        request: Request,
        handler: S,
        request_log: &RequestLog,
    ) -> Response {
        let Some(guard) = &self.guard else { return call(handler, request).await };
        let Some(cors) = &guard.cors else {
            return self.admit(guard, request, handler, request_log).await;
        };
        let admit = service_fn(move |request| {
            self.admit(guard, request, handler.clone(), request_log).map(Ok::<_, Infallible>)
        });
        let Ok(response) = cors.layer(admit).oneshot(request).await;
        response
    }

    /// Calls the handler if the caller may call it and `limits.requests_in_flight` has room.
    async fn admit<S: Handler>(
        &self,
        guard: &Guard,
        mut request: Request,
        handler: S,
        request_log: &RequestLog,
    ) -> Response {
        let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let (need, is_limited) = guard.needs.of(path, request.method());
        let identity = match guard.admission.identify(&request, need) {
            Ok(identity) => identity,
            Err(problem) => return problem.into_response(),
        };
        request_log.admitted(identity.clone());
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let permit = match is_limited.then(|| self.app.in_flight.permit()).transpose() {
            Ok(permit) => permit,
            Err(problem) => return problem.into_response(),
        };
        let extensions = request.extensions_mut();
        extensions.insert(identity.clone());
        permit.clone().map(|permit| extensions.insert(permit));
        let response = call(handler, request).await;
        drop(permit);
        hold(&self.app.memory, &identity, is_read, response).await
    }
}

/// Calls a handler, and answers a panic, which the panic hook has logged, with a problem.
async fn call<S: Handler>(handler: S, request: Request) -> Response {
    match AssertUnwindSafe(handler.oneshot(request)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Err(_) => Problem::internal().into_response(),
    }
}

/// Service of a route, as the router passes it to a layer.
trait Handler:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Handler for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

#[derive(Clone)]
pub struct EdgeService<S> {
    edge: Edge,
    handler: S,
}

impl<S> Layer<S> for Edge {
    type Service = EdgeService<S>;

    fn layer(&self, handler: S) -> EdgeService<S> {
        EdgeService { edge: self.clone(), handler }
    }
}

impl<S: Handler> Service<Request> for EdgeService<S> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { edge, handler } = self.clone();
        Box::pin(async move { Ok(edge.serve(request, handler).await) })
    }
}
