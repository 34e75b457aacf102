//! OpenAPI 3.1 for `GET /openapi.json`, and what routes are declared with.
//!
//! Schemas come from the types that read requests and write answers, limits from the constants that are checked,
//! problems from their codes. An [`Operation`] adds what types cannot say: which route takes and gives what.

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

/// The description as its route serves it.
#[derive(Clone, Copy)]
pub struct Description(pub &'static Tagged);

/// Answers with the description.
pub async fn description(
    Extension(Description(file)): Extension<Description>,
    headers: HeaderMap,
) -> Response {
    file.answer(&headers)
}
