//! Bounded answers.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, header::CONTENT_ENCODING};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::{address::is_public, failure::Failure, stream::Peer, url::Target};

/// Answer to a request. Redirects are answers, too.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers, at most 64 KiB.
    pub headers: HeaderMap,
    /// Body, or `None` if it was longer than allowed or broke off after the headers.
    pub body: Option<Bytes>,
    /// Whether the connected address is public.
    pub is_public: bool,
}

impl Answer {
    /// Reads up to `limit` bytes of body. A longer body ends the connection (with HTTP/2, the
    /// stream).
    pub(crate) async fn read(
        response: Response<Incoming>,
        limit: usize,
        target: &Target,
    ) -> Result<Self, Failure> {
        let (head, body) = response.into_parts();
        let is_compressed = is_compressed(&head.headers);
        if is_compressed && head.status.is_success() {
            return Err(Failure::Compressed(format!(
                "{target} compressed its answer, though the request accepts none"
            )));
        }
        let is_public = head.extensions.get::<Peer>().is_some_and(|peer| is_public(peer.0.ip()));
        // The status of another answer decides without its body.
        let body = if is_compressed { None } else { read_body(body, limit).await };
        Ok(Self { status: head.status, headers: head.headers, body, is_public })
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| {
        let is_none = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
        !value.to_str().is_ok_and(|codings| codings.split(',').map(str::trim).all(is_none))
    })
}

async fn read_body(mut body: Incoming, limit: usize) -> Option<Bytes> {
    if body.size_hint().lower() > limit as u64 {
        return None;
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are dropped.
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if data.len() > limit - read.len() {
            return None;
        }
        read.extend_from_slice(&data);
    }
    Some(read.freeze())
}
