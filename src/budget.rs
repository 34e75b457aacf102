//! Memory that the bodies of requests, answers and pushed jobs hold at once
//! (`limits.memory_bytes`).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A number of bytes and how many of them are used; clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0) }))
    }

    /// Returns the bytes that may be used.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns the bytes that are used.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Uses `bytes` more, if at most `most` are used then. Returns whether they fit.
    pub fn take(&self, bytes: usize, most: usize) -> bool {
        let fits = |used: usize| Some(used + bytes).filter(|&used| used <= most);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Uses `bytes` more, even beyond the limit.
    pub fn take_beyond(&self, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
