//! Answers that are not written yet: what each caller has of the memory, and whose connection is closed
//! when it is short.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use slab::Slab;
use tokio::time::Instant;

use super::quotas::Caller;
use crate::http::client::peer::Peer;

/// A connection that has held an answer for so long may be closed to make room.
const SLOW: Duration = Duration::from_secs(1);
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

/// An answer that is not written yet.
pub struct Answer {
    since: Instant,
    bytes: usize,
    caller: Caller,
    peer: Peer,
    is_cut: bool,
}

impl Answer {
    /// An answer of so many bytes, which waits from now on.
    pub fn new(bytes: usize, caller: Caller, peer: Peer) -> Self {
        Self { since: Instant::now(), bytes, caller, peer, is_cut: false }
    }
}

impl Held {
    /// Closes connections that have held an answer longest, those of one caller or of all, until this
    /// many bytes are about to come back; whether there are any.
    pub fn make_room(&self, of: Option<&Caller>, bytes: usize) -> bool {
        let mut answers = self.lock();
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

    /// Adds an answer, unless it may be refused and its caller would have more than `most` bytes.
    pub fn add(&self, answer: Answer, most: usize, may_refuse: bool) -> Result<usize, Caller> {
        let mut answers = self.lock();
        let of = answers.of.entry(answer.caller.clone()).or_default();
        if may_refuse && *of > 0 && *of + answer.bytes > most {
            return Err(answer.caller);
        }
        *of += answer.bytes;
        Ok(answers.all.insert(answer))
    }

    /// Forgets an answer whose bytes were written or dropped.
    pub fn remove(&self, key: usize) {
        let mut answers = self.lock();
        let Answer { bytes, caller, .. } = answers.all.remove(key);
        if let Some(of) = answers.of.get_mut(&caller) {
            *of -= bytes;
            if *of == 0 {
                answers.of.remove(&caller);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}
