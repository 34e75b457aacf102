//! Unwritten answers: counts the memory that they take per caller, and closes connections of slow
//! readers when memory is short.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use slab::Slab;
use tokio::time::Instant;

use super::quotas::Caller;
use crate::http::client::peer::Peer;

/// Minimum age of an unwritten answer whose connection may be closed to free memory.
const SLOW: Duration = Duration::from_secs(1);
/// Extension of a response whose bytes `Memory` counts already: the answer to a read or a pop.
#[derive(Clone)]
pub struct Counted;

/// All unwritten answers.
#[derive(Default)]
pub struct Held(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    all: Slab<Answer>,
    /// Unwritten bytes per caller.
    of: HashMap<Caller, usize>,
}

/// An unwritten answer.
pub struct Answer {
    since: Instant,
    bytes: usize,
    caller: Caller,
    peer: Peer,
    is_cut: bool,
}

impl Answer {
    /// Describes an answer of `bytes` bytes that is unwritten from now on.
    pub fn new(bytes: usize, caller: Caller, peer: Peer) -> Self {
        Self { since: Instant::now(), bytes, caller, peer, is_cut: false }
    }
}

impl Held {
    /// Closes the connections of the oldest unwritten answers, of one caller or of all, until their
    /// answers add up to `bytes` bytes. Returns whether any was closed.
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

    /// Adds an answer and returns its key. With `may_refuse`, refuses an answer with which its
    /// caller would hold more than `most` bytes, unless it is the caller's only one; the error is
    /// the caller.
    pub fn add(&self, answer: Answer, most: usize, may_refuse: bool) -> Result<usize, Caller> {
        let mut answers = self.lock();
        let of = answers.of.entry(answer.caller.clone()).or_default();
        if may_refuse && *of > 0 && *of + answer.bytes > most {
            return Err(answer.caller);
        }
        *of += answer.bytes;
        Ok(answers.all.insert(answer))
    }

    /// Removes an answer whose bytes were written or dropped.
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
