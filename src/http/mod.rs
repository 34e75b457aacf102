//! The HTTP API: routes, and what holds for all of them.
//!
//! A handler extracts, makes one call to the queue, and maps its answer; nothing else. Every route
//! is served at the root and under `/v1`.

mod app;
mod client;
mod dashboard;
mod edge;
mod extract;
mod file;
#[cfg(any(test, fuzzing))]
#[path = "../../fuzz/inside/requests.rs"]
pub mod fuzzing;
mod limits;
mod openapi;
mod problem;
mod routes;
mod schema;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    extract::MatchedPath,
    http::{HeaderMap, Method, Uri, header::ALLOW},
    middleware,
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

use self::{
    edge::{admit, finalize, forwarded},
    limits::in_flight,
    routes::{access, batch, health, jobs, metrics, overview, pop, store, tokens, topics},
};

use self::problem::Problem;
pub use self::{
    app::App,
    client::peer::Peer,
    edge::{
        admit::Admission, farewell::Farewell, forwarded::TrustedProxies, log::AUDIT,
        origin::Origins,
    },
    limits::limit_by::{LimitBy, network},
    problem::Code,
};

/// What a listener offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// All routes.
    Everything,
    /// Jobs, topics and the dashboard: there is another listener for the rest.
    Queue,
    /// What operators and their monitors ask for.
    Operations,
}

/// The routes of a listener. `/healthz` is always among them.
pub fn router(app: App, admission: Admission, offer: Offer) -> Router {
    let in_flight = middleware::from_fn_with_state(app.in_flight.clone(), in_flight::limit);
    let finalized = (app.requests.clone(), Arc::clone(&app.refused));
    let health = Router::new().route("/healthz", get(health::healthz));
    let routes = match offer {
        Offer::Everything => queue().route_layer(in_flight).merge(operations()).merge(health),
        Offer::Queue => queue().route_layer(in_flight).merge(health),
        Offer::Operations => operations().merge(health),
    };
    let cors = admission.origins.cors();
    let proxies = admission.proxies.clone();
    let admitted = (Arc::new(admission), app.memory.clone());
    let routes = Router::new()
        .nest("/v1", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(middleware::from_fn_with_state(admitted, admit::admit));
    // Before `admit`: a browser asks whether a page may call without the token of the call.
    let routes = match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    // The dashboard's files and the API's description hold nothing that is secret: they need no token.
    let pages = match offer {
        Offer::Everything | Offer::Queue => documentation().merge(dashboard::routes()),
        Offer::Operations => Router::new(),
    };
    let routes = routes.merge(pages.method_not_allowed_fallback(wrong_method));
    let routes = routes.layer(middleware::from_fn_with_state(finalized, finalize::finalize));
    match proxies.is_empty() {
        true => routes,
        false => routes.layer(middleware::from_fn_with_state(proxies, forwarded::forwarded)),
    }
}

fn queue() -> Router<App> {
    Router::new()
        .route("/jobs", post(jobs::put))
        .route("/jobs/{id}", get(jobs::get).patch(jobs::patch).delete(jobs::delete))
        .route("/jobs/{id}/finish", post(jobs::finish))
        .route("/jobs/{id}/release", post(jobs::release))
        .route("/jobs/{id}/touch", post(jobs::touch))
        .route("/jobs/{id}/bury", post(jobs::bury))
        .route("/jobs/{id}/kick", post(jobs::kick))
        .route("/batch/jobs", post(batch::put))
        .route("/batch/finish", post(batch::finish))
        .route("/batch/release", post(batch::release))
        .route("/batch/touch", post(batch::touch))
        .route("/batch/delete", post(batch::delete))
        .route("/topics/{topic}/pop", pop_route())
        .route("/topics", get(topics::list))
        .route("/topics/{topic}", get(topics::get).put(topics::put))
        .route("/topics/{topic}/pause", post(topics::pause))
        .route("/topics/{topic}/resume", post(topics::resume))
        .route("/topics/{topic}/jobs", get(topics::jobs).delete(topics::purge))
        .route("/topics/{topic}/due", get(topics::due))
        .route("/topics/{topic}/kick", post(topics::kick))
        .route("/overview", get(overview::overview))
        .route("/access", get(access::access))
}

fn operations() -> Router<App> {
    Router::new()
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{name}", delete(tokens::revoke))
        .route("/store/accept-loss", post(store::accept_loss))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
}

/// The API, described for programs and for people.
fn documentation() -> Router {
    let description = Router::new().route("/openapi.json", get(openapi::description));
    Router::new()
        .nest("/v1", description.clone())
        .merge(description)
        .route("/docs", get(openapi::page))
        .merge(openapi::style())
}

async fn no_route(headers: HeaderMap, uri: Uri) -> Response {
    dashboard::not_found(&headers, &openapi::no_route(uri.path()))
}

async fn wrong_method(method: Method, path: Option<MatchedPath>) -> Problem {
    let takes = path.and_then(|path| openapi::methods_of(path.as_str()));
    let takes = takes.map_or_else(String::new, |methods| format!("; it takes {methods}"));
    Problem::new(Code::MethodNotAllowed, format!("this route does not take {method}{takes}"))
}

/// A HEAD would pop jobs and throw them away, so it is refused, and `Allow` does not name it.
fn pop_route() -> MethodRouter<App> {
    async fn neither_get_nor_post(method: Method, path: MatchedPath) -> impl IntoResponse {
        ([(ALLOW, "GET, POST")], wrong_method(method, Some(path)).await)
    }
    get(pop::pop).post(pop::pop).head(neither_get_nor_post).fallback(neither_get_nor_post)
}

/// The panic itself is in the log already.
fn panicked() -> Response {
    Problem::internal().into_response()
}
