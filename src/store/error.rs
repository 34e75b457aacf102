//! What can go wrong with a store.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

/// What a failed call did to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing was changed, and nothing will be by this call.
    No,
    /// It may have been carried out; only the answer is missing.
    Unknown,
}

/// Why a whole batch has no replies. Clients are told the kind; the cause goes into the log.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The store does not answer, or not now.
    #[error("failed to reach the store: {cause}")]
    Unavailable {
        /// Whether the batch may have been carried out.
        applied: Applied,
        /// What happened.
        cause: Arc<str>,
    },
    /// No room for more; what frees room still works.
    #[error("failed to write: the store is full: {cause}")]
    Full {
        /// What the engine said.
        cause: Arc<str>,
    },
    /// The store is not the one it was: it was emptied, or is another one.
    #[error(
        "the store has lost its jobs: it was emptied or replaced. Restore it, or accept the loss (delay-queue doctor --accept-loss); then restart a server on files"
    )]
    Replaced {
        /// Whether the batch may have been carried out.
        applied: Applied,
    },
    /// What the store has of the job asked for is damaged; other jobs are fine.
    #[error("failed to read a job: {cause}")]
    Damaged {
        /// What was found.
        cause: Arc<str>,
    },
    /// The store answered what this version cannot read.
    #[error("failed to read the store's answer: {cause}")]
    Unreadable {
        /// What was found.
        cause: Arc<str>,
    },
}

impl StoreError {
    /// Out of reach, and surely not applied.
    pub fn away(cause: impl ToString) -> Self {
        Self::Unavailable { applied: Applied::No, cause: cause.to_string().into() }
    }

    /// The answer is missing.
    pub fn unknown(cause: impl ToString) -> Self {
        Self::Unavailable { applied: Applied::Unknown, cause: cause.to_string().into() }
    }

    /// An answer or record that makes no sense.
    pub fn unreadable(cause: impl ToString) -> Self {
        Self::Unreadable { cause: cause.to_string().into() }
    }

    /// A job that cannot be read.
    pub fn damaged(cause: impl ToString) -> Self {
        Self::Damaged { cause: cause.to_string().into() }
    }

    /// The same of a call that only reads: it has changed nothing, whatever became of its answer.
    pub fn of_read(self) -> Self {
        match self {
            Self::Unavailable { cause, .. } => Self::away(cause),
            Self::Replaced { .. } => Self::Replaced { applied: Applied::No },
            other => other,
        }
    }

    /// Whether the batch may have been carried out.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Unavailable { applied, .. } | Self::Replaced { applied } => *applied,
            Self::Full { .. } | Self::Damaged { .. } => Applied::No,
            Self::Unreadable { .. } => Applied::Unknown,
        }
    }
}

/// Why a store cannot be opened. Each message says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the directory, or the database in it.
    #[error(
        "failed to open {dir}: another delay-queue (or a tool that has jobs.db open) is using it; \
         stop that one, or give this one another directory by store.url"
    )]
    InUse {
        /// The data directory.
        dir: PathBuf,
    },
    /// The store does not exist, and the command does not make one.
    #[error("failed to open the store: there is none in {what} (store.url)")]
    Missing {
        /// The data directory, or the address of the server.
        what: String,
    },
    /// The store holds jobs laid out in another way.
    #[error(
        "failed to open the store: it was made with {what} = {found}, this start asks for \
         {asked}; its jobs would not be found. {advice}"
    )]
    Layout {
        /// Which part of the layout.
        what: &'static str,
        /// What the store has.
        found: String,
        /// What this start would use.
        asked: String,
        /// What to do.
        advice: &'static str,
    },
    /// A Redis that may lose or refuse jobs.
    #[error("failed to open the store: this Redis is not fit for a queue: {0}")]
    Unfit(String),
    /// It is not there, or not ready; it may be in a moment.
    #[error("failed to open {what}: {cause}")]
    Away {
        /// Address, or what was asked for.
        what: String,
        /// What happened.
        cause: String,
    },
    /// The store's files are not what was written.
    #[error(
        "failed to open the store in {dir}: {cause}. Nothing was changed. `delay-queue doctor \
         --repair` puts these files aside and goes on with all that can be read; `delay-queue \
         export --skip-damaged FILE` writes it into a file. Both say what is missing"
    )]
    Damaged {
        /// The data directory.
        dir: PathBuf,
        /// What was found.
        cause: String,
    },
    /// The engine.
    #[error("failed to open {what}: {cause}")]
    Engine {
        /// File or address.
        what: String,
        /// What it said.
        cause: String,
    },
}
