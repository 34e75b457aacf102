//! JSON answers, and objects within requests. Answers end with a newline, so that a terminal shows
//! its prompt on a line of its own.

use std::{fmt, marker::PhantomData};

use axum::{
    body::Body,
    http::header::{CONTENT_TYPE, HeaderValue},
    response::{IntoResponse, Response},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::http::problem::Problem;

/// Answer in JSON.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match line(&self.0) {
            Ok(text) => response(text),
            Err(problem) => problem.into_response(),
        }
    }
}

/// Returns an answer with this JSON text.
pub fn response(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
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

/// Deserialises a struct from an object only: serde would also fill its fields from a list.
pub fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    deserializer.deserialize_any(Object(PhantomData))
}
