//! The HTTP API: its routes, at the root and under `/v1`, and the steps that all requests share.

mod api;
mod app;
mod call;
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
mod routing;
mod schema;
mod wire;

use axum::{http::HeaderMap, response::Response};

use self::{openapi::Listener, routing::Routes};

pub use self::{
    app::App,
    client::peer::Peer,
    edge::{
        admit::Admission, connection_error::ConnectionError, forwarded::TrustedProxies, log::AUDIT,
        origin::Origins, site::Site,
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

/// Returns what a listener serves, always with `/healthz`.
pub fn site(app: App, admission: Admission, offer: Offer) -> Site {
    // The dashboard's files and the API's description contain no secrets, so they need no token.
    use Listener::{Both, Description, Operations, Page, Queue};
    let (listeners, files): (&[_], _) = match offer {
        Offer::Everything => (&[Both, Queue, Operations, Description, Page], true),
        Offer::Queue => (&[Both, Queue, Description, Page], true),
        Offer::Operations => (&[Both, Operations], false),
    };
    let files = dashboard::routes().into_iter().filter(|_| files);
    let routes = Routes::new(api::routes(listeners).chain(files), &app.requests);
    Site::new(app, admission, routes, no_route)
}

fn no_route(headers: &HeaderMap, path: &str) -> Response {
    dashboard::not_found(headers, &api::no_route(path))
}
