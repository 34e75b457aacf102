//! Limit of the bytes that requests and answers of the whole process hold at once.
//!
//! A request counts from the first byte of its body until the store has released it, even if its
//! client has disconnected; an answer counts until it is written. A request that would exceed the
//! limit is refused before anything is done.

use std::{sync::Arc, time::Duration};

use axum::{body::Bytes, response::Response};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::held::{Counted, Held};
use crate::{
    budget::Budget,
    http::{
        problem::{Code, Problem},
        wire::json,
    },
    metrics::gauge,
};

/// Number of copies of a request's body that are counted: as received, and in the store's command.
pub const COPIES: usize = 2;
/// Maximum size of a share that may also use the last eighth of the memory, so that clients can
/// finish, delete and read jobs while large puts are refused.
const SMALL: usize = 16 << 10;
/// Maximum number of pages of jobs read at once, which bounds their share of the store's time.
const MAX_PAGES: usize = 4;
/// Estimated bytes of the result of one job of a batch.
const RESULT_BYTES: usize = 512;
/// Number of checks whether closed connections have freed memory.
const ROOM_CHECKS: usize = 50;
/// Pause before each of these checks.
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of requests that wait to read a page, which bounds their share of the requests in
/// flight.
const MAX_WAITING_PAGES: usize = 64;

/// Maximum number of counts of errors that run at once. Each holds up to 5 MB.
const MAX_COUNTS: usize = 4;

/// Memory for requests and answers.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    budget: Budget,
    pages: Semaphore,
    /// Permits for all requests that read a page or wait for a permit of `pages`.
    page_queue: Semaphore,
    counts: Semaphore,
    held: Held,
}

/// Memory that one request or answer holds; returned on drop.
pub struct Share {
    memory: Memory,
    bytes: usize,
}

impl Memory {
    /// Limits requests and answers to a budget (`limits.memory_bytes`).
    pub fn new(budget: Budget) -> Self {
        let pages = Semaphore::new(MAX_PAGES);
        let page_queue = Semaphore::new(MAX_PAGES + MAX_WAITING_PAGES);
        let counts = Semaphore::new(MAX_COUNTS);
        Self(Arc::new(Inner { budget, pages, page_queue, counts, held: Held::default() }))
    }

    pub fn register(&self, registry: &mut Registry) {
        let help = "Bytes of limits.memory_bytes that requests, answers and pushed jobs hold.";
        let memory = self.clone();
        gauge(registry, "memory_bytes", help, move || memory.used());
    }

    pub fn used(&self) -> usize {
        self.0.budget.used()
    }

    pub fn limit(&self) -> usize {
        self.0.budget.limit()
    }

    pub fn answers(&self) -> &Held {
        &self.0.held
    }

    pub fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }

    /// Checks that more than an eighth of the memory is free, for a request with a large answer.
    pub fn has_room(&self) -> Result<(), Problem> {
        match self.used() < self.limit() / 8 * 7 {
            true => Ok(()),
            false => Err(Problem::overloaded()),
        }
    }

    /// Does the same as [`Self::has_room`], but first closes connections of slow readers, if
    /// necessary, and waits for their memory.
    pub async fn free_room(&self) -> Result<(), Problem> {
        if self.has_room().is_err() && self.answers().make_room(None, self.limit() / 8) {
            for _ in 0..ROOM_CHECKS {
                tokio::time::sleep(ROOM_PAUSE).await;
                if self.has_room().is_ok() {
                    break;
                }
            }
        }
        self.has_room()
    }

    /// Takes memory for the results of a batch of `jobs` jobs, before anything is done.
    pub fn room_for_results(&self, jobs: usize) -> Result<Share, Problem> {
        let mut share = self.share();
        share.grow(jobs * RESULT_BYTES).map(|()| share)
    }

    /// Returns the approximate maximum size of the bodies of one pop, in bytes, which leaves room
    /// for other requests.
    pub fn max_pop_bytes(&self) -> usize {
        self.limit() / 8
    }

    /// Waits for permission to read a page of jobs, whose size is unknown until it is read.
    ///
    /// # Errors
    /// 503 `overloaded`: too many requests wait, or memory is short.
    pub async fn page(&self) -> Result<[SemaphorePermit<'_>; 2], Problem> {
        self.free_room().await?;
        let Ok(asked) = self.0.page_queue.try_acquire() else {
            return Err(Problem::overloaded_by("pages of jobs that are read at once"));
        };
        let reads = self.0.pages.acquire().await.map_err(|_| Problem::overloaded())?;
        self.has_room().map(|()| [asked, reads])
    }

    /// Gives permission to count errors.
    ///
    /// # Errors
    /// 503 `overloaded`: too many counts run, or memory is short.
    pub async fn count(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.free_room().await?;
        let permit = self.0.counts.try_acquire();
        permit.map_err(|_| Problem::overloaded_by("counts of errors that run at once"))
    }

    /// Serialises a value as JSON, if there is memory for it.
    pub fn json<T: Serialize>(&self, value: &T) -> Result<Bytes, Problem> {
        let text = json::line(value)?;
        let mut share = self.share();
        share.grow(text.len())?;
        Ok(share.hold(text))
    }

    /// Returns a value as the answer to a read.
    pub fn answer<T: Serialize>(&self, value: &T) -> Result<Response, Problem> {
        let mut response = json::response(self.json(value)?);
        response.extensions_mut().insert(Counted);
        Ok(response)
    }
}

impl Share {
    /// Adds `bytes` to the share.
    ///
    /// # Errors
    /// 503 `overloaded`: there is not enough memory.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let limit = self.memory.limit();
        let most = if self.bytes + bytes <= SMALL { limit } else { limit / 8 * 7 };
        if !self.memory.0.budget.take(bytes, most) {
            return Err(Problem::overloaded());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Adds `bytes` to the share, even beyond the limit. Use it for the answer to a request that
    /// has changed jobs, since this answer must not be refused.
    pub fn grow_beyond(&mut self, bytes: usize) {
        self.memory.0.budget.take_beyond(bytes);
        self.bytes += bytes;
    }

    /// Wraps bytes. Dropping the last slice of them returns this share.
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        struct CountedBytes {
            bytes: Vec<u8>,
            _share: Share,
        }

        impl AsRef<[u8]> for CountedBytes {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }

        Bytes::from_owner(CountedBytes { bytes, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.0.budget.give_back(self.bytes);
    }
}

impl Problem {
    pub fn overloaded() -> Self {
        Self::overloaded_by("limits.memory_bytes")
    }

    pub fn overloaded_by(setting: &str) -> Self {
        let detail = format!(
            "the server is at its limit ({setting}); nothing was done; retry the request in a \
             moment"
        );
        Self::new(Code::Overloaded, detail)
    }
}

#[cfg(test)]
mod tests;
