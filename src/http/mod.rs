//! The HTTP API: routes, and what holds for all of them.
//!
//! A handler extracts, makes one call to the queue, and maps its answer; nothing else. Every route
//! is served at the root and under `/v1`.

mod admit;
mod batch;
mod content;
mod cursor;
mod dashboard;
mod farewell;
mod finalize;
mod health;
mod identity;
mod input;
mod jobs;
mod json;
mod log;
mod memory;
mod metrics;
mod origin;
mod overview;
mod parse;
mod peer;
mod pop;
mod problem;
mod query;
mod topics;
mod wire;

use std::sync::{Arc, atomic::AtomicBool};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header::ALLOW},
    middleware,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

use self::problem::Problem;

pub use self::{
    admit::Admission, farewell::Farewell, identity::Identity, memory::Memory, origin::Origins,
    peer::Peer,
};
use crate::{config::Limits, queue::Queue};

/// What handlers share.
#[derive(Clone)]
pub struct App {
    /// The service.
    pub queue: Arc<Queue>,
    /// How large things may be.
    pub limits: Limits,
    /// What requests and answers may hold.
    pub memory: Memory,
    /// The server is about to end: not ready any more.
    pub draining: Arc<AtomicBool>,
}

/// All routes.
pub fn router(app: App, admission: Admission) -> Router {
    let routes = Router::new()
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
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics));
    let cors = admission.origins.cors();
    let routes = Router::new()
        .nest("/v1", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(middleware::from_fn_with_state(Arc::new(admission), admit::admit));
    // Before `admit`: a browser asks whether a page may call without the token of the call.
    let routes = match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    // The dashboard's files hold nothing that is secret: they need no token.
    let files = dashboard::routes().method_not_allowed_fallback(wrong_method);
    routes.merge(files).layer(middleware::from_fn(finalize::finalize))
}

async fn no_route(headers: HeaderMap) -> Response {
    dashboard::not_found(&headers)
}

async fn wrong_method() -> Problem {
    let detail = "this route does not take this method; Allow names those it takes";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// A HEAD would pop jobs and throw them away, so it is refused, and `Allow` does not name it.
fn pop_route() -> MethodRouter<App> {
    async fn neither_get_nor_post() -> impl IntoResponse {
        ([(ALLOW, "GET, POST")], wrong_method().await)
    }
    get(pop::pop).post(pop::pop).head(neither_get_nor_post).fallback(neither_get_nor_post)
}

/// The panic itself is in the log already.
fn panicked() -> Response {
    Problem::internal().into_response()
}
