//! How many bytes requests and answers may hold at once, in the whole process.
//!
//! A request counts from the first byte of its body until the store has let go of it, which may be
//! after its client has gone; an answer counts until it is written. What would go beyond the limit
//! is refused, before anything was done.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension,
    body::Bytes,
    http::header::{CONTENT_TYPE, HeaderValue},
    response::{IntoResponse, Response},
};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::held::{Counted, Held};
use crate::{
    http::{
        problem::{Code, Problem},
        wire::json,
    },
    metrics::gauge,
};

/// What a byte of a request counts: it is held as it came, and again in what goes to the store.
pub const COPIES: usize = 2;
/// What holds less than this may use the last part of the memory, an eighth: finishing, deleting
/// and looking go on while large puts wait.
const SMALL: usize = 16 << 10;
/// Most pages of jobs that are read from the store at once, and most that wait for that: however many
/// are asked for, little of the store's time goes to them, and few of the requests in flight are such.
const PAGES: usize = 4;
/// Estimated bytes of the result of one job of a batch.
const RESULT: usize = 512;
/// How often, and how long apart, room is looked for that a closed connection gives back.
const ROOM_TRIES: usize = 50;
const ROOM_PAUSE: Duration = Duration::from_millis(10);
const WAITING_PAGES: usize = 64;

/// The memory for requests and answers.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    limit: usize,
    used: AtomicUsize,
    pages: Semaphore,
    /// Permissions to read a page, or to wait for that.
    asked_pages: Semaphore,
    /// Answers that are not written.
    held: Held,
}

/// What one request or answer holds of it. Given back when it is dropped.
pub struct Share {
    memory: Memory,
    bytes: usize,
}

impl Memory {
    /// At most `limit` bytes (`limits.memory_bytes`).
    pub fn new(limit: usize) -> Self {
        let pages = Semaphore::new(PAGES);
        let asked_pages = Semaphore::new(PAGES + WAITING_PAGES);
        let (used, held) = (AtomicUsize::new(0), Held::default());
        Self(Arc::new(Inner { limit, used, pages, asked_pages, held }))
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        let help = "What requests and answers hold of limits.memory_bytes.";
        let memory = self.clone();
        gauge(registry, "memory_bytes", help, move || memory.used());
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// `limits.memory_bytes`.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Answers that are not written.
    pub fn held(&self) -> &Held {
        &self.0.held
    }

    /// A share that holds nothing yet.
    pub fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }

    /// Refuses what would read large answers while there is no room for them.
    pub fn has_room(&self) -> Result<(), Problem> {
        match self.used() < self.0.limit / 8 * 7 {
            true => Ok(()),
            false => Err(Problem::overloaded()),
        }
    }

    /// The same after a moment, if there is a slow reader whose connection can be closed for it.
    pub async fn room(&self) -> Result<(), Problem> {
        if self.has_room().is_err() && self.held().make_room(None, self.0.limit / 8) {
            for _ in 0..ROOM_TRIES {
                tokio::time::sleep(ROOM_PAUSE).await;
                if self.has_room().is_ok() {
                    break;
                }
            }
        }
        self.has_room()
    }

    /// Room for the results of so many jobs, before anything is done.
    pub fn room_for_results(&self, jobs: usize) -> Result<Share, Problem> {
        let mut share = self.share();
        share.grow(jobs * RESULT).map(|()| share)
    }

    /// What the bodies of one pop may take of it, about: a few such pops leave room for others.
    pub fn of_one_pop(&self) -> usize {
        self.0.limit / 8
    }

    /// Waits for permission to read a page of jobs, of which the size is known when it is read.
    ///
    /// # Errors
    /// 503 `overloaded`: too many wait, or there is no room.
    pub async fn page(&self) -> Result<[SemaphorePermit<'_>; 2], Problem> {
        self.room().await?;
        let Ok(asked) = self.0.asked_pages.try_acquire() else {
            return Err(Problem::overloaded_by("pages of jobs that are read at once"));
        };
        let reads = self.0.pages.acquire().await.map_err(|_| Problem::overloaded())?;
        self.has_room().map(|()| [asked, reads])
    }

    /// A value as JSON, if there is room for it.
    pub fn json<T: Serialize>(&self, value: &T) -> Result<Bytes, Problem> {
        let text = json::line(value)?;
        let mut share = self.share();
        share.grow(text.len())?;
        Ok(share.hold(text))
    }

    /// The answer to a read.
    pub fn answer<T: Serialize>(&self, value: &T) -> Result<Response, Problem> {
        let kind = HeaderValue::from_static("application/json");
        let counted = Extension(Counted);
        Ok((counted, [(CONTENT_TYPE, kind)], self.json(value)?).into_response())
    }
}

impl Share {
    /// Takes so many bytes more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let Inner { limit, used, .. } = &*self.memory.0;
        let limit = if self.bytes + bytes <= SMALL { *limit } else { limit / 8 * 7 };
        let fits = |used: usize| Some(used + bytes).filter(|&used| used <= limit);
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => Err(Problem::overloaded()),
        }
    }

    /// Takes so many bytes more, also beyond the limit: for the answer to what was done.
    pub fn grow_beyond(&mut self, bytes: usize) {
        self.memory.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// The same bytes, which hold this share until the last part of them is dropped.
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        struct Claim {
            bytes: Vec<u8>,
            _share: Share,
        }

        impl AsRef<[u8]> for Claim {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }

        Bytes::from_owner(Claim { bytes, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Problem {
    pub fn overloaded() -> Self {
        Self::overloaded_by("limits.memory_bytes")
    }

    /// The server has as much to do as this setting allows.
    pub fn overloaded_by(setting: &str) -> Self {
        let detail = format!(
            "the server has no room for this now ({setting}): nothing was done, so ask again in a \
             moment"
        );
        Self::new(Code::Overloaded, detail)
    }
}

#[cfg(test)]
mod tests;
