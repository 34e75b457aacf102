//! From the bytes of a request to valid values; each refusal names its field.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, EXPECT},
        request::Parts,
    },
};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Frame;
use tower_http::timeout::TimeoutError;

use super::{App, problem::Problem, query::Query};
use crate::job::{JobId, Topic};

/// Most topics that one pop may name.
const MAX_TOPICS: usize = 100;

/// A request is read up to so many times the limit before it is cut off.
const TOLERATED: usize = 4;
/// How long a client may pause in a body that is too large already.
const PAUSE: Duration = Duration::from_millis(500);

/// The whole body of a request, within `limits.request_bytes`.
pub(super) struct Content(pub(super) Bytes);

impl FromRequest<App> for Content {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let limit = app.limits.request_bytes;
        // Whoever asks before sending is told before sending.
        let asks_first = request.headers().contains_key(EXPECT);
        let length = request.headers().get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
        let length = length.and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
        let too_large =
            || Problem::body_too_large(format!("the request must have at most {limit} bytes"));
        if asks_first && length > limit {
            return Err(too_large());
        }
        let mut body = request.into_body();
        let mut read = BytesMut::with_capacity(length.min(limit));
        let mut received = 0;
        while let Some(frame) = next_frame(&mut body, received > limit).await {
            let Ok(data) = frame.map_err(|error| broken_off(&error))?.into_data() else { continue };
            received += data.len();
            // Most clients read no answer before they have sent everything. So what is too much
            // is read on and thrown away, up to a point.
            if received <= limit {
                read.extend_from_slice(&data);
            } else if received > limit.saturating_mul(TOLERATED) {
                break;
            }
        }
        if received > limit {
            return Err(too_large());
        }
        Ok(Self(read.freeze()))
    }
}

/// The next part of a body. One that is only read to be thrown away may not pause for long.
async fn next_frame(
    body: &mut Body,
    throw_away: bool,
) -> Option<Result<Frame<Bytes>, axum::Error>> {
    match throw_away {
        false => body.frame().await,
        true => tokio::time::timeout(PAUSE, body.frame()).await.unwrap_or(None),
    }
}

fn broken_off(error: &axum::Error) -> Problem {
    if caused_by_timeout(error) {
        let detail = "the body did not arrive in time (server.body_timeout)";
        return Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", detail);
    }
    let detail = "the body of the request broke off";
    Problem::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
}

fn caused_by_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.into_iter().any(|cause| cause.is::<TimeoutError>())
}

/// The one parameter of a path.
async fn parameter(parts: &mut Parts, app: &App, field: &str) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, app).await;
    path.map(|Path(text)| text).map_err(|_| Problem::field(field, "must be UTF-8 text"))
}

/// A route that takes no parameters: one that is given is a mistake.
pub(super) struct NoQuery;

impl FromRequestParts<App> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Query::new(&parts.uri).finish().map(|()| Self)
    }
}

/// The job id of a path.
pub(super) struct PathId(pub(super) JobId);

impl FromRequestParts<App> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let id = parameter(parts, app, "id").await?.parse();
        id.map(Self).map_err(|error: crate::job::NameError| Problem::field("id", error.to_string()))
    }
}

/// The topics of a path: one, or a list with commas.
pub(super) struct PathTopics(pub(super) Vec<Topic>);

impl FromRequestParts<App> for PathTopics {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let text = parameter(parts, app, "topic").await?;
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

/// The topic of a path that takes no list.
pub(super) struct PathTopic(pub(super) Topic);

impl FromRequestParts<App> for PathTopic {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let PathTopics(mut topics) = PathTopics::from_request_parts(parts, app).await?;
        match (topics.pop(), topics.is_empty()) {
            (Some(topic), true) => Ok(Self(topic)),
            _ => Err(Problem::field("topic", "must be one topic, not a list")),
        }
    }
}
