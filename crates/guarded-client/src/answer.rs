//! Bounded answers.

use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, header::CONTENT_ENCODING};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::{address::is_public, failure::Failure, url::Target};

/// Answer to a request. Redirects are answers, too.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers, at most 64 KiB.
    pub headers: HeaderMap,
    /// Body, or its beginning.
    pub body: Bytes,
    /// Whether the body is whole: it was not longer than allowed, and did not break off.
    pub is_whole: bool,
    /// Whether the connected address is public.
    pub is_public: bool,
}

impl Answer {
    /// Reads up to `limit` bytes of the body of the answer from `peer`. A longer body ends the
    /// connection.
    pub(crate) async fn read(
        response: Response<Incoming>,
        limit: usize,
        target: &Target,
        peer: IpAddr,
    ) -> Result<Self, Failure> {
        let (head, body) = response.into_parts();
        let is_compressed = is_compressed(&head.headers);
        if is_compressed && head.status.is_success() {
            return Err(Failure::Compressed(format!(
                "{target} compressed its answer, though the request accepts none"
            )));
        }
        // The status of another answer decides without its body.
        let (body, is_whole) =
            if is_compressed { Default::default() } else { read_body(body, limit).await };
        let (status, headers) = (head.status, head.headers);
        Ok(Self { status, headers, body, is_whole, is_public: is_public(peer) })
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| {
        let is_none = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
        !value.to_str().is_ok_and(|codings| codings.split(',').map(str::trim).all(is_none))
    })
}

/// Reads up to `limit` bytes, and returns whether they are the whole body.
async fn read_body(mut body: Incoming, limit: usize) -> (Bytes, bool) {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (read.freeze(), false) };
        // Trailers are dropped.
        let Ok(data) = frame.into_data() else { continue };
        let fits = data.len().min(limit - read.len());
        read.extend_from_slice(&data[..fits]);
        if fits < data.len() {
            return (read.freeze(), false);
        }
    }
    (read.freeze(), true)
}
