//! Answers until they are written: what each caller has of the memory, and whose connection is closed
//! when it is short.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use hyper::body::{Body as _, Frame, SizeHint};
use slab::Slab;
use tokio::time::Instant;

use super::{
    identity::Identity,
    memory::{Memory, Share},
    peer::Peer,
    problem::Problem,
    quotas::Caller,
};

/// A connection that has held an answer for so long may be closed to make room.
const SLOW: Duration = Duration::from_secs(1);
/// Smaller answers are not counted: a connection or a stream that holds one takes more than the answer.
const SMALL: usize = 2 << 10;
/// The answers of one caller may have this part of the memory.
const SHARE: usize = 2;

/// In the extensions of an answer to a read or a pop whose bytes hold a share of the memory already.
#[derive(Clone)]
pub struct Counted;

/// All answers that are not written yet.
#[derive(Default)]
pub struct Held(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    all: Slab<Answer>,
    /// The bytes of each caller.
    of: HashMap<Caller, usize>,
}

struct Answer {
    since: Instant,
    bytes: usize,
    caller: Caller,
    peer: Peer,
    is_cut: bool,
}

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
        memory.make_room(None, bytes);
        if may_refuse {
            return Problem::overloaded().into_response();
        }
        share.grow_beyond(bytes);
    }
    let (caller, peer) = (Caller::of(identity), peer.clone());
    let answer = Answer { since: Instant::now(), bytes, caller, peer, is_cut: false };
    let held = match memory.held().add(answer, memory.limit() / SHARE, may_refuse) {
        Ok(key) => Hold { memory: memory.clone(), key, _share: share },
        Err(caller) => {
            memory.make_room(Some(&caller), bytes);
            return Problem::overloaded().into_response();
        }
    };
    response.map(|body| Body::new(HeldBody { body, held: Arc::new(held) }))
}

impl Memory {
    /// Closes connections that have held an answer longest, those of one caller or of all, until this
    /// many bytes are about to come back; whether there are any.
    pub fn make_room(&self, of: Option<&Caller>, bytes: usize) -> bool {
        let mut answers = self.held().lock();
        let mut slow: Vec<(Instant, usize)> = (answers.all.iter())
            .filter(|(_, answer)| of.is_none_or(|caller| answer.caller == *caller))
            .filter(|(_, answer)| !answer.is_cut && answer.since.elapsed() >= SLOW)
            .map(|(key, answer)| (answer.since, key))
            .collect();
        slow.sort_unstable();
        let mut freed = 0;
        for (_, key) in slow {
            if freed >= bytes {
                break;
            }
            let answer = &mut answers.all[key];
            answer.is_cut = true;
            freed += answer.bytes;
            tracing::debug!(
                "closing the connection that has not read its answer for longest (limits.memory_bytes)"
            );
            answer.peer.cut();
        }
        freed > 0
    }
}

impl Held {
    /// Adds an answer, unless it may be refused and its caller would have more than `most` bytes.
    fn add(&self, answer: Answer, most: usize, may_refuse: bool) -> Result<usize, Caller> {
        let mut answers = self.lock();
        let of = answers.of.entry(answer.caller.clone()).or_default();
        if may_refuse && *of > 0 && *of + answer.bytes > most {
            return Err(answer.caller);
        }
        *of += answer.bytes;
        Ok(answers.all.insert(answer))
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut answers = self.memory.held().lock();
        let Answer { bytes, caller, .. } = answers.all.remove(self.key);
        if let Some(of) = answers.of.get_mut(&caller) {
            *of -= bytes;
            if *of == 0 {
                answers.of.remove(&caller);
            }
        }
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
