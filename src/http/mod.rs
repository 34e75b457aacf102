//! The HTTP API: its routes, at the root and under `/v1`, and the steps that all requests share.

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
mod requests;
mod routes;
mod schema;
mod wire;

use axum::{
    Router,
    http::{HeaderMap, Uri},
    response::Response,
};

use self::{edge::service::Edge, openapi::Listener};

pub use self::{
    app::App,
    client::peer::Peer,
    edge::{
        admit::Admission, connection_error::ConnectionError, forwarded::TrustedProxies, log::AUDIT,
        origin::Origins,
    },
    limits::{
        delivery::Delivery,
        hold::Hold,
        limit_by::{KeyedLimit, network},
    },
    problem::Code,
};

/// Routes that a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// All routes.
    Everything,
    /// Jobs, topics and the dashboard; another listener serves the rest.
    Queue,
    /// Routes for operators and their monitors.
    Operations,
}

/// Returns the routes of a listener, always with `/healthz`.
pub fn router(app: App, admission: Admission, offer: Offer) -> Router {
    let (queue, operations) = (Listener::Queue, Listener::Operations);
    let routes = match offer {
        Offer::Everything => api::routes(queue).merge(api::routes(operations)),
        Offer::Queue => api::routes(queue),
        Offer::Operations => api::routes(operations),
    };
    let routes = routes.merge(api::routes(Listener::Both));
    // The dashboard's files and the API's description contain no secrets, so they need no token.
    let pages = match offer {
        Offer::Everything | Offer::Queue => api::documentation().merge(dashboard::routes()),
        Offer::Operations => Router::new(),
    };
    let open = Edge::open(app.clone(), admission.proxies.clone());
    let guarded = open.guarded(admission, api::needs());
    let routes = Router::new()
        .nest("/v1", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(api::wrong_method)
        .with_state(app.clone())
        .layer(guarded);
    let pages = pages.method_not_allowed_fallback(api::wrong_method).with_state(app).layer(open);
    routes.merge(pages)
}

async fn no_route(headers: HeaderMap, uri: Uri) -> Response {
    dashboard::not_found(&headers, &api::no_route(uri.path()))
}
