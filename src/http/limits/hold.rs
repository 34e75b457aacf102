//! An answer counts until it is written.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;

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

/// One answer, until the last of its bytes is written or will never be. In its extensions.
pub struct Hold {
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
    response.extensions_mut().insert(Arc::new(held));
    response
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.held().remove(self.key);
    }
}
