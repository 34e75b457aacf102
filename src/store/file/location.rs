//! The directory of a file store as a [`Location`].

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;

use super::{FileStore, doctor};
use crate::store::{Location, OpenError, Options, Report, ScheduleReader, Store};

/// The directory of a file store.
#[derive(Debug, Clone)]
pub struct Directory(pub PathBuf);

#[async_trait]
impl Location for Directory {
    fn name(&self) -> String {
        format!("file:{}", self.0.display())
    }

    fn ack(&self) -> &'static str {
        "fsync"
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn identity(&self) -> io::Result<String> {
        Ok(format!("file:{}", self.0.canonicalize()?.display()))
    }

    async fn open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        let dir = self.0.clone();
        // Loading a large store blocks on disk and CPU for a while.
        let opened = tokio::task::spawn_blocking(move || FileStore::open(&dir, options)).await;
        let opened = opened.map_err(|panic| OpenError::Engine {
            subject: "the file store".to_owned(),
            cause: panic.to_string(),
        })?;
        Ok(Arc::new(opened?))
    }

    async fn accept_loss(&self, _: Options) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(0) // the next start opens the files that are in place
    }

    async fn examine(
        &self,
        options: Options,
        repair: bool,
        read: ScheduleReader,
    ) -> Result<Report, Box<dyn Error + Send + Sync>> {
        doctor::report(&self.0, options, repair, read).await
    }
}
