//! Reads the body of a request as it arrives.

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, Request},
};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::http::{
    call::Call,
    limits::memory::{COPIES, Memory},
    problem::{Code, Problem},
};

/// The whole body of a request, within `limits.request_bytes`.
pub struct Content(pub Bytes);

impl FromRequest<Call> for Content {
    type Rejection = Problem;

    async fn from_request(request: Request, call: &Call) -> Result<Self, Problem> {
        let body = request.into_body();
        if body.is_end_stream() {
            return Ok(Self(Bytes::new()));
        }
        let limits = &call.app.limits;
        call.permit.leave();
        let read = read(body, limits.request_bytes, &call.app.memory);
        let read = timeout(limits.body_timeout.into(), read).await;
        let content = read.unwrap_or_else(|_| Err(too_slow()))?;
        call.permit.enter()?;
        // The token may have been revoked while the body arrived.
        call.identity.check()?;
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
        let Ok(data) = frame.map_err(|_| incomplete())?.into_data() else { continue };
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

fn too_slow() -> Problem {
    let detail = "the body did not arrive in time (limits.body_timeout)";
    Problem::new(Code::RequestTimeout, detail)
}

/// Returns the problem of a body that did not arrive completely.
fn incomplete() -> Problem {
    let detail = "the body of the request ended early or is malformed";
    Problem::new(Code::InvalidRequest, detail)
}
