//! Unwritten answers. This module counts their memory per caller. When memory is short, it closes
//! connections whose clients read slowly.

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
const MIN_SLOW_AGE: Duration = Duration::from_secs(1);
/// Extension of a response whose bytes `Memory` has already counted: the answer to a read or a pop.
#[derive(Clone)]
pub struct Counted;

/// All unwritten answers.
#[derive(Default)]
pub struct Held(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    all: Slab<Answer>,
    /// Unwritten bytes per caller.
    by_caller: HashMap<Caller, usize>,
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
    /// Describes an answer of `bytes` bytes that has just become ready to be written.
    pub fn new(bytes: usize, caller: Caller, peer: Peer) -> Self {
        Self { since: Instant::now(), bytes, caller, peer, is_cut: false }
    }
}

impl Held {
    /// Closes the connections with the oldest unwritten answers, until these answers have `bytes`
    /// bytes together. If `only` is given, closes only connections of this caller. Returns whether
    /// it closed any.
    pub fn make_room(&self, only: Option<&Caller>, bytes: usize) -> bool {
        let mut answers = self.lock();
        let mut slow: Vec<(Instant, usize)> = (answers.all.iter())
            .filter(|(_, answer)| only.is_none_or(|caller| answer.caller == *caller))
            .filter(|(_, answer)| !answer.is_cut && answer.since.elapsed() >= MIN_SLOW_AGE)
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

    /// Adds an answer and returns its key. If `may_refuse`, refuses the answer if it would raise
    /// the unwritten bytes of its caller above `max_bytes`, and returns the caller as the error.
    /// The only answer of a caller is never refused.
    pub fn add(&self, answer: Answer, max_bytes: usize, may_refuse: bool) -> Result<usize, Caller> {
        let mut answers = self.lock();
        let held = answers.by_caller.entry(answer.caller.clone()).or_default();
        if may_refuse && *held > 0 && *held + answer.bytes > max_bytes {
            return Err(answer.caller);
        }
        *held += answer.bytes;
        Ok(answers.all.insert(answer))
    }

    /// Removes an answer whose bytes were written or dropped.
    pub fn remove(&self, key: usize) {
        let mut answers = self.lock();
        let Answer { bytes, caller, .. } = answers.all.remove(key);
        if let Some(held) = answers.by_caller.get_mut(&caller) {
            *held -= bytes;
            if *held == 0 {
                answers.by_caller.remove(&caller);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().expect("no thread panics while holding this lock")
    }
}
