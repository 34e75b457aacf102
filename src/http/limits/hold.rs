//! Counts the memory of an answer until it is written.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;

use super::{
    delivery::refuse_answer,
    held::{Answer, Counted},
    memory::{Memory, Share},
    quotas::Caller,
};
use crate::http::{client::identity::Identity, problem::Problem};

/// Minimum size of an answer that is counted. A smaller one takes less memory than its connection
/// or stream.
const MIN_COUNTED_BYTES: usize = 2 << 10;
/// Divisor of `limits.memory_bytes` for the unwritten answers of one caller: a caller may use half.
const CALLER_DIVISOR: usize = 2;

/// The memory of one answer, as an extension of the answer. When the last byte is written or
/// discarded, dropping this value returns the memory.
pub struct Hold {
    memory: Memory,
    key: usize,
    _share: Share,
}

/// Counts an answer of known size until it is written, or replaces it with 503 `overloaded`.
pub async fn hold(
    memory: &Memory,
    identity: &Identity,
    is_read: bool,
    mut response: Response,
) -> Response {
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let Some(bytes @ MIN_COUNTED_BYTES..) = size else { return response };
    let is_counted = response.extensions_mut().remove::<Counted>().is_some();
    // The answer to a change must not be refused: the client would not learn of the change.
    let may_refuse = is_read || is_counted;
    let mut share = memory.share();
    if !is_counted && share.grow(bytes).is_err() {
        memory.answers().make_room(None, bytes);
        if may_refuse {
            return refuse_answer(response, Problem::overloaded()).await.into_response();
        }
        share.grow_beyond(bytes);
    }
    let answer = Answer::new(bytes, Caller::new(identity), identity.peer().clone());
    let held = match memory.answers().add(answer, memory.limit() / CALLER_DIVISOR, may_refuse) {
        Ok(key) => Hold { memory: memory.clone(), key, _share: share },
        Err(caller) => {
            memory.answers().make_room(Some(&caller), bytes);
            return refuse_answer(response, Problem::overloaded()).await.into_response();
        }
    };
    response.extensions_mut().insert(Arc::new(held));
    response
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.answers().remove(self.key);
    }
}
