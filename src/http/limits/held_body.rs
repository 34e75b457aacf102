//! The body of an answer, whose bytes count until they are written.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use hyper::body::{Body as _, Frame, SizeHint};

use super::{
    held::{Answer, Counted},
    memory::{Memory, Share},
    quotas::Caller,
};
use crate::http::{client::identity::Identity, problem::Problem};

/// Smaller answers are not counted: a connection or a stream that holds one takes more than the answer.
const SMALL: usize = 2 << 10;
/// The answers of one caller may have this part of the memory.
const SHARE: usize = 2;

/// One answer, until the last of its bytes is written or will never be.
struct Hold {
    memory: Memory,
    key: usize,
    _share: Share,
}

/// Counts an answer of known size until it is written.
pub fn hold(
    memory: &Memory,
    identity: &Identity,
    is_read: bool,
    mut response: Response,
) -> Response {
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let (Some(bytes @ SMALL..), Some(peer)) = (size, identity.peer()) else { return response };
    let is_counted = response.extensions_mut().remove::<Counted>().is_some();
    // An answer that is dropped must not be the only word of something that was done.
    let may_refuse = is_read || is_counted;
    let mut share = memory.share();
    if !is_counted && share.grow(bytes).is_err() {
        memory.held().make_room(None, bytes);
        if may_refuse {
            return Problem::overloaded().into_response();
        }
        share.grow_beyond(bytes);
    }
    let answer = Answer::new(bytes, Caller::of(identity), peer.clone());
    let held = match memory.held().add(answer, memory.limit() / SHARE, may_refuse) {
        Ok(key) => Hold { memory: memory.clone(), key, _share: share },
        Err(caller) => {
            memory.held().make_room(Some(&caller), bytes);
            return Problem::overloaded().into_response();
        }
    };
    response.map(|body| Body::new(HeldBody { body, held: Arc::new(held) }))
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.held().remove(self.key);
    }
}

/// The body of an answer; its bytes count until they are dropped.
struct HeldBody {
    body: Body,
    held: Arc<Hold>,
}

struct HeldBytes {
    bytes: Bytes,
    _held: Arc<Hold>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let held = || Arc::clone(&self.held);
        let hold = |bytes| Bytes::from_owner(HeldBytes { bytes, _held: held() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
