//! OpenAPI 3.1 for `GET /openapi.json`, and the type by which routes are declared.
//!
//! Schemas come from the types of requests and answers, limits from the constants that the code
//! checks, problems from their codes. An [`Operation`] adds the rest: the requests and answers of
//! each route.

mod document;
mod operation;
mod schemas;

use std::sync::{LazyLock, OnceLock};

use axum::{http::HeaderMap, response::Response};

use super::file::Tagged;

pub use self::{
    document::document,
    operation::{Handled, Listener, Operation, on},
    schemas::Schemas,
};

/// The OpenAPI document, which is made of all declarations when its route is first called.
pub static DESCRIPTION: OnceLock<&'static LazyLock<Tagged>> = OnceLock::new();

/// Serves the OpenAPI document.
///
/// # Panics
/// The document is not set.
pub async fn description(headers: HeaderMap) -> Response {
    DESCRIPTION.get().expect("the document is set with the routes").answer(&headers)
}
