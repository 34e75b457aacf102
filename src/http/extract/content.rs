//! Reads the body of a request as it arrives.

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRef, FromRequest, Request},
};
use http_body_util::BodyExt;
use tower_http::timeout::TimeoutError;

use crate::{
    config::Limits,
    http::{
        client::identity::Identity,
        limits::{
            in_flight::InFlightPermit,
            memory::{COPIES, Memory},
        },
        problem::{Code, Problem},
    },
};

/// The whole body of a request, within `limits.request_bytes`.
pub struct Content(pub Bytes);

impl<S> FromRequest<S> for Content
where
    Limits: FromRef<S>,
    Memory: FromRef<S>,
    S: Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let permit = request.extensions().get::<InFlightPermit>().cloned();
        if request.body().is_end_stream() {
            return Ok(Self(Bytes::new()));
        }
        let identity = request.extensions().get::<Identity>().cloned();
        let body = request.into_body();
        if let Some(permit) = &permit {
            permit.leave();
        }
        let content =
            read(body, Limits::from_ref(state).request_bytes, &Memory::from_ref(state)).await?;
        permit.map_or(Ok(()), |permit| permit.enter())?;
        // The token may have been revoked while the body arrived.
        identity.map_or(Ok(()), |identity| identity.check())?;
        Ok(Self(content))
    }
}

/// Reads a body of up to `limit` bytes. Refuses a larger one as soon as its size is known, often
/// before any byte has arrived; the connection then discards the rest.
async fn read(mut body: Body, limit: usize, memory: &Memory) -> Result<Bytes, Problem> {
    let too_large =
        || Problem::body_too_large(format!("the request must have at most {limit} bytes"));
    let claimed = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if claimed > limit {
        return Err(too_large());
    }
    let mut share = memory.share();
    let mut read: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| incomplete(&error))?.into_data() else { continue };
        let length = read.len() + data.len();
        if length > limit {
            return Err(too_large());
        }
        share.grow(COPIES * data.len())?;
        if length > read.capacity() {
            // A client may claim any length, so the buffer grows to at most twice its contents.
            let room = if claimed < length { 2 * length } else { claimed.min(2 * length) };
            read.reserve_exact(room - read.len());
        }
        read.extend_from_slice(&data);
    }
    Ok(share.hold(read))
}

/// Returns the problem of a body that did not arrive completely.
fn incomplete(error: &axum::Error) -> Problem {
    if caused_by_timeout(error) {
        let detail = "the body did not arrive in time (limits.body_timeout)";
        return Problem::new(Code::RequestTimeout, detail);
    }
    let detail = "the body of the request ended early or is malformed";
    Problem::new(Code::InvalidRequest, detail)
}

fn caused_by_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.into_iter().any(|cause| cause.is::<TimeoutError>())
}
