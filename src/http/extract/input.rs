//! Extractors of paths, queries and headers; each refusal names its field.

use std::{borrow::Cow, convert::Infallible};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
};
use percent_encoding::percent_decode_str;

use super::query::Query;
use crate::{
    access::TokenName,
    http::{call::Call, problem::Problem},
    job::{JobId, ScheduleName, Topic, TraceParent},
};

/// The name that no schedule can have, since a route has it.
const RESERVED_SCHEDULE: &str = "preview";
/// Maximum number of topics of one pop.
pub const MAX_TOPICS: usize = 100;

/// Returns the only parameter of a path.
fn parameter<'a>(parts: &'a Parts, call: &Call, field: &str) -> Result<Cow<'a, str>, Problem> {
    let text = parts.uri.path().get(call.parameter.clone()).unwrap_or_default();
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_err(|_| Problem::field(field, "must be UTF-8 text"))
}

/// Name of a file in a path.
pub struct PathFile(pub String);

impl FromRequestParts<Call> for PathFile {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        parameter(parts, call, "name").map(|name| Self(name.into_owned()))
    }
}

/// Refuses any query parameter, for routes that take none.
pub struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::new(&parts.uri).reject_unknown().map(|()| Self)
    }
}

/// Job id of a path.
pub struct PathId(pub JobId);

impl FromRequestParts<Call> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        let id = parameter(parts, call, "id")?.parse();
        id.map(Self).map_err(|error: crate::job::NameError| Problem::field("id", error.to_string()))
    }
}

/// The `traceparent` of a request. An invalid one is ignored, as W3C Trace Context demands.
pub struct Traced(pub Option<TraceParent>);

impl<S: Sync> FromRequestParts<S> for Traced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(traceparent(&parts.headers)))
    }
}

pub fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all("traceparent").iter();
    let (first, second) = (values.next(), values.next());
    let text = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.parse().ok())
}

/// Name of an access token in a path.
pub struct PathToken(pub TokenName);

impl FromRequestParts<Call> for PathToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        let name = parameter(parts, call, "name")?.parse();
        name.map(Self)
            .map_err(|error: crate::job::NameError| Problem::field("name", error.to_string()))
    }
}

/// Name of a schedule in a path.
pub struct PathSchedule(pub ScheduleName);

impl FromRequestParts<Call> for PathSchedule {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        let name = parameter(parts, call, "name")?;
        if name == RESERVED_SCHEDULE {
            let detail = format!("must not be {name:?}, which is reserved");
            return Err(Problem::field("name", detail));
        }
        name.parse()
            .map(Self)
            .map_err(|error: crate::job::NameError| Problem::field("name", error.to_string()))
    }
}

/// Topics of a path: one, or several separated by commas.
pub struct PathTopics(pub Vec<Topic>);

impl FromRequestParts<Call> for PathTopics {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        let text = parameter(parts, call, "topic")?;
        let topics: Vec<Topic> = text
            .split(',')
            .map(|topic| {
                topic.parse().map_err(|error: crate::job::NameError| {
                    Problem::field("topic", error.to_string())
                })
            })
            .collect::<Result<_, _>>()?;
        if topics.len() > MAX_TOPICS {
            let detail = format!("must be at most {MAX_TOPICS} topics, got {}", topics.len());
            return Err(Problem::field("topic", detail));
        }
        Ok(Self(topics))
    }
}

/// Topic of a path that takes only one.
pub struct PathTopic(pub Topic);

impl FromRequestParts<Call> for PathTopic {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, call: &Call) -> Result<Self, Problem> {
        let PathTopics(mut topics) = PathTopics::from_request_parts(parts, call).await?;
        match (topics.pop(), topics.is_empty()) {
            (Some(topic), true) => Ok(Self(topic)),
            _ => Err(Problem::field("topic", "must be one topic, not a list")),
        }
    }
}
