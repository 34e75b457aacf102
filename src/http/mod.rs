//! The HTTP API: every route of `api`, and what holds for all of them. Each is served at the root and under `/v1`.

mod api;
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
    http::{HeaderMap, Uri},
    middleware,
    response::{IntoResponse, Response},
};
use tower_http::catch_panic::CatchPanicLayer;

use self::{
    edge::{admit, finalize, forwarded},
    limits::in_flight,
    openapi::Listener,
    problem::Problem,
};

pub use self::{
    app::App,
    client::peer::Peer,
    edge::{
        admit::Admission, farewell::Farewell, forwarded::TrustedProxies, log::AUDIT,
        origin::Origins,
    },
    limits::{
        hold::Hold,
        limit_by::{LimitBy, network},
    },
    problem::Code,
    routes::pop::Delivery,
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
    let queue = || api::routes(Listener::Queue).route_layer(in_flight);
    let operations = || api::routes(Listener::Operations);
    let routes = match offer {
        Offer::Everything => queue().merge(operations()),
        Offer::Queue => queue(),
        Offer::Operations => operations(),
    };
    let routes = routes.merge(api::routes(Listener::Both));
    let cors = admission.origins.cors();
    let proxies = admission.proxies.clone();
    let admitted = (Arc::new(admission), Arc::new(api::needs()), app.memory.clone());
    let routes = Router::new()
        .nest("/v1", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(api::wrong_method)
        .with_state(app.clone())
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(middleware::from_fn_with_state(admitted, admit::admit));
    // Before `admit`: a browser asks whether a page may call without the token of the call.
    let routes = match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    // The dashboard's files and the API's description hold nothing that is secret: they need no token.
    let pages = match offer {
        Offer::Everything | Offer::Queue => api::documentation().merge(dashboard::routes()),
        Offer::Operations => Router::new(),
    };
    let routes = routes.merge(pages.method_not_allowed_fallback(api::wrong_method).with_state(app));
    let routes = routes.layer(middleware::from_fn_with_state(finalized, finalize::finalize));
    match proxies.is_empty() {
        true => routes,
        false => routes.layer(middleware::from_fn_with_state(proxies, forwarded::forwarded)),
    }
}

async fn no_route(headers: HeaderMap, uri: Uri) -> Response {
    dashboard::not_found(&headers, &api::no_route(uri.path()))
}

/// The panic itself is in the log already.
fn panicked() -> Response {
    Problem::internal().into_response()
}
