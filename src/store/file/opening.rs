//! Opens the store, and examines all of it for damage.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use rusqlite::ErrorCode;

use tokio::sync::Semaphore;

use super::{
    FileStore, directory, lock::Lock, records::Records, repair, room, writer::Writer,
    writer_state::WriterState,
};
use crate::store::{OpenError, Options, StoreError, StoreResult};

impl FileStore {
    /// Opens the store in `dir` and loads the index of its jobs. Creates the store if it is missing
    /// and `options.create` is set.
    ///
    /// # Errors
    /// Another process has the store open, it is missing or damaged or has another layout, or the
    /// disk fails.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let engine = |cause: &dyn std::fmt::Display| OpenError::Engine {
            subject: dir.display().to_string(),
            cause: cause.to_string(),
        };
        if !options.create && !dir.join("jobs.db").exists() {
            return Err(OpenError::Missing { subject: dir.display().to_string() });
        }
        directory::make(dir).map_err(|cause| engine(&cause))?;
        let lock = Lock::take(dir)?;
        repair::check(dir)?;
        let file = dir.join("jobs.db");
        let (mut records, mut buckets) = Records::open(&file, options.buckets)?;
        if records.log_bytes(&file).is_ok_and(|bytes| bytes == 0)
            && records.reserve_log(&file).is_err()
        {
            // Without room for a log, no job could be deleted.
            drop(records);
            room::ballast_to_log(dir).map_err(|cause| engine(&cause))?;
            (records, buckets) = Records::open(&file, options.buckets)?;
        }
        let damaged = |cause: &dyn std::fmt::Display| OpenError::Damaged {
            dir: dir.to_owned(),
            cause: cause.to_string(),
        };
        let unreadable = |what: &'static str| {
            move |cause: rusqlite::Error| match is_corrupt(&cause) {
                true => damaged(&format!("jobs.db: its {what} cannot be read: {cause}")),
                false => engine(&cause),
            }
        };
        // Without the tokens, the server might admit every caller or none, so damage here stops the
        // start.
        records.tokens().map_err(unreadable("access tokens"))?;
        let key = records.reservation_key().map_err(unreadable("key of reservations"))?;
        let reservation_key = Arc::new(key);
        let parts = (dir, lock, records);
        let mut writer = match WriterState::open(parts, buckets, options.clock) {
            Err(cause) if is_corrupt(&*cause) => return Err(damaged(&cause)),
            writer => writer.map_err(|cause| engine(&cause))?,
        };
        let unreadable = writer.unreadable;
        if unreadable > 0 {
            // New jobs would perhaps go to one of the unreadable pages.
            writer.try_insert().map_err(|cause| damaged(&cause))?;
            tracing::error!(
                unreadable,
                "rows or pages with jobs or schedules cannot be read: see `doctor`"
            );
        }
        directory::sync(dir).map_err(|cause| engine(&cause))?;
        let watch = Arc::clone(&writer.watch);
        let writer = Writer::start(writer).map_err(|cause| engine(&cause))?;
        Ok(Self {
            dir: dir.to_owned(),
            writer,
            buckets,
            reservation_key,
            watch,
            gets: Semaphore::new(super::GETS),
            tokens_version: Arc::new(AtomicU64::new(1)),
            unreadable,
        })
    }

    /// Reads the whole file and returns its faults; an empty list if it is sound.
    ///
    /// # Errors
    /// SQLite or the disk fails.
    pub async fn examine(&self) -> StoreResult<Vec<String>> {
        let unreadable = self.unreadable;
        let examine = move |writer: &mut WriterState| {
            let mut wrong = writer.records.examine().map_err(StoreError::unavailable)?;
            if unreadable > 0 {
                wrong.push(format!(
                    "{unreadable} rows or pages with jobs or schedules cannot be read"
                ));
            }
            Ok(wrong)
        };
        self.writer.read(examine).await
    }
}

fn is_corrupt(cause: &(dyn std::error::Error + 'static)) -> bool {
    let code = cause.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    code == Some(ErrorCode::DatabaseCorrupt)
}
