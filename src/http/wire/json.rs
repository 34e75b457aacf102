//! JSON answers. They end with a newline, so that a terminal shows its prompt on a line of its own.

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::http::problem::Problem;

/// Answer in JSON.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match line(&self.0) {
            Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
            Err(problem) => problem.into_response(),
        }
    }
}

/// Serialises a value as JSON with a newline.
pub fn line<T: Serialize>(value: &T) -> Result<Vec<u8>, Problem> {
    let mut text = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "failed to write an answer");
        Problem::internal()
    })?;
    text.push(b'\n');
    Ok(text)
}
