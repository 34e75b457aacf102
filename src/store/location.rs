//! Location of a store, and operations on a store that is not open.

use std::{error::Error, fmt::Debug, path::Path, sync::Arc};

use async_trait::async_trait;

use super::{OpenError, Options, Report, ScheduleReader, Store};

/// Location of a store, from the settings.
#[async_trait]
pub trait Location: Debug + Send + Sync {
    /// Returns the store's name for logs, without user and password.
    fn name(&self) -> String;

    /// Returns the effective level of acknowledgement: a value of `store.ack`.
    fn ack(&self) -> &'static str;

    /// Returns the store's directory, if it is on this machine.
    fn directory(&self) -> Option<&Path>;

    /// Returns the store's name for exports, which does not depend on the working directory.
    ///
    /// # Errors
    /// The directory does not exist.
    fn identity(&self) -> std::io::Result<String>;

    /// Opens the store; creates a missing one if `options.create` is set.
    ///
    /// # Errors
    /// See [`OpenError`].
    async fn open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError>;

    /// Opens the store and accepts the loss of jobs; see [`Store::accept_loss`]. Recreates
    /// a lost layout if `store.buckets` is set.
    ///
    /// # Errors
    /// The store cannot be opened or written.
    async fn accept_loss(&self, options: Options) -> Result<u64, Box<dyn Error + Send + Sync>>;

    /// Examines the store without creating one; repairs it if `repair` is set. `read` reads its
    /// schedules.
    ///
    /// # Errors
    /// A read failed during the examination. Faults of the store are in the report instead.
    async fn examine(
        &self,
        options: Options,
        repair: bool,
        read: ScheduleReader,
    ) -> Result<Report, Box<dyn Error + Send + Sync>>;
}
