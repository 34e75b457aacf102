//! The file store: jobs in one directory of this machine, embedded and durable.
//!
//! The machine carries out every transition in memory; the records keep every job on disk. One
//! thread owns both.

mod ballast;
mod commands;
mod commit;
mod counted;
mod directory;
mod doctor;
mod finished;
mod health;
mod index;
mod loading;
mod location;
mod lock;
mod machine;
mod matching;
mod opening;
mod pace;
mod pending;
mod pop;
mod reads;
mod records;
mod repair;
mod room;
mod salvage;
mod schedules;
mod settings;
mod settings_log;
mod tokens;
mod vacuum;
mod writer;
mod writer_state;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

pub use self::{
    location::Directory,
    repair::{Repaired, Salvaged, repair, salvage_into},
};

#[cfg(any(test, fuzzing))]
pub use self::{records::file_records, salvage::fuzzing::file_pages};

use self::{health::Need, writer::Writer};
use super::{
    Applied, Condition, DiskRoom, MAX_BATCH, Options, SharedStore, Store, StoreError, StoreResult,
    clock_watch::ClockWatch,
};
use crate::job::{Buckets, ReservationKey};

/// Maximum number of gets queued for the writer at once.
const GETS: usize = 4;

/// A store in a directory.
pub struct FileStore {
    dir: PathBuf,
    writer: Writer,
    buckets: Buckets,
    reservation_key: Arc<ReservationKey>,
    /// Limits gets to [`GETS`] at a time. So a write waits for at most this many gets, however
    /// large their bodies are.
    gets: Semaphore,
    watch: Arc<ClockWatch>,
    tokens_version: Arc<AtomicU64>,
    /// Rows and pages that could not be read at the start. The jobs on them are unknown.
    unreadable: u64,
}

#[async_trait]
impl Store for FileStore {
    fn buckets(&self) -> Buckets {
        self.buckets
    }

    fn reservation_key(&self) -> Arc<ReservationKey> {
        Arc::clone(&self.reservation_key)
    }

    fn batch_limit(&self) -> usize {
        if self.writer.health.is_full() { room::JOBS_PER_CALL } else { MAX_BATCH }
    }

    async fn accept_loss(&self) -> StoreResult<u64> {
        match self.writer.health.is_replaced() {
            true => Err(StoreError::Replaced { applied: Applied::No }),
            false => Ok(0),
        }
    }

    async fn check(&self) -> StoreResult<()> {
        self.writer.health.refusal(Need::Writing).map_or(Ok(()), Err)
    }

    fn condition(&self) -> Condition {
        let health = &self.writer.health;
        Condition {
            is_full: health.is_full(),
            // All buckets are in the same file.
            data_losses: if health.is_replaced() { self.buckets.get().into() } else { 0 },
            clock_jumps: self.watch.jumps(),
            unreadable: self.unreadable,
            ..Condition::default()
        }
    }

    fn disk_room(&self) -> Option<DiskRoom> {
        directory::room(&self.dir).ok()
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    async fn close(&self) {
        self.writer.close();
    }
}
