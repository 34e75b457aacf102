//! OpenAPI 3.1 for `GET /openapi.json`, and the type by which routes are declared.
//!
//! Schemas come from the types of requests and answers, limits from the constants that the code
//! checks, problems from their codes. An [`Operation`] adds the rest: the requests and answers of
//! each route.

mod document;
mod operation;
mod schemas;

use axum::{Extension, http::HeaderMap, response::Response};

use super::file::Tagged;

pub use self::{
    document::document,
    operation::{Handled, Listener, Operation, on},
    schemas::Schemas,
};

/// The OpenAPI document as its route serves it.
#[derive(Clone, Copy)]
pub struct Description(pub &'static Tagged);

/// Serves the OpenAPI document.
pub async fn description(
    Extension(Description(file)): Extension<Description>,
    headers: HeaderMap,
) -> Response {
    file.answer(&headers)
}
