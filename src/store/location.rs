//! Where a store is, and what can be done with one that is not open yet.

use std::{error::Error, fmt::Debug, path::Path, sync::Arc};

use async_trait::async_trait;

use super::{OpenError, Options, Report, Store};

/// A store that the settings name.
#[async_trait]
pub trait Location: Debug + Send + Sync {
    /// The store as logs name it: without user and password.
    fn name(&self) -> String;

    /// By what `store.ack` calls it, what an answer to a write is worth.
    fn ack(&self) -> &'static str;

    /// The directory that has the store, if it is one of this machine.
    fn directory(&self) -> Option<&Path>;

    /// The store as an export names it, the same from wherever it is called.
    ///
    /// # Errors
    /// There is no such directory.
    fn identity(&self) -> std::io::Result<String>;

    /// Opens the store, making it if it is not there.
    ///
    /// # Errors
    /// See [`OpenError`].
    async fn open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError>;

    /// Opens the store to accept that jobs are lost; see [`Store::accept_loss`]. A layout that is lost is
    /// written again, if the number of buckets is set.
    ///
    /// # Errors
    /// It cannot be opened, or not written.
    async fn accept_loss(&self, options: Options) -> Result<u64, Box<dyn Error + Send + Sync>>;

    /// Examines the store from outside, and makes none; repairs it if `repair` says so.
    ///
    /// # Errors
    /// Reading failed in the middle. What is wrong with the store is in the report.
    async fn examine(
        &self,
        options: Options,
        repair: bool,
    ) -> Result<Report, Box<dyn Error + Send + Sync>>;
}
