//! Errors of stores.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

/// Effect of a failed call on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The call has changed nothing and never will.
    No,
    /// The call may have been applied; its answer is missing.
    Unknown,
}

/// Error of a whole batch, which then has no replies. Clients get the kind of the error; the log
/// gets the cause.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The store is unavailable.
    #[error("failed to reach the store: {cause}")]
    Unavailable {
        /// Whether the batch may have been applied.
        applied: Applied,
        /// The error of the engine or the connection.
        cause: Arc<str>,
    },
    /// The store has no room; calls that free room still work.
    #[error("failed to write: the store is full: {cause}")]
    Full {
        /// The error of the engine.
        cause: Arc<str>,
    },
    /// The settings of the store may lose jobs, so it takes no new ones; all other calls work.
    #[error("failed to write: the store may lose jobs: {cause}")]
    Unsafe {
        /// The setting, and what it must be.
        cause: Arc<str>,
    },
    /// The store was emptied or replaced with another one.
    #[error(
        "the store has lost its jobs: it was emptied or replaced. Restore it, or accept the loss (delay-queue doctor --accept-loss). A server with a file store must then be restarted"
    )]
    Replaced {
        /// Whether the batch may have been applied.
        applied: Applied,
    },
    /// The record of the requested job is damaged; other jobs are not affected.
    #[error("failed to read a job: {cause}")]
    Damaged {
        /// The damage found.
        cause: Arc<str>,
    },
    /// This version cannot read the store's answer.
    #[error("failed to read the store's answer: {cause}")]
    Unreadable {
        /// The reason.
        cause: Arc<str>,
    },
}

impl StoreError {
    /// Returns the error of an unavailable store that has not applied the call.
    pub fn unavailable(cause: impl ToString) -> Self {
        Self::Unavailable { applied: Applied::No, cause: cause.to_string().into() }
    }

    /// Returns the error of a call whose answer is missing.
    pub fn unknown(cause: impl ToString) -> Self {
        Self::Unavailable { applied: Applied::Unknown, cause: cause.to_string().into() }
    }

    /// Returns the error of an answer or a record that this version cannot read.
    pub fn unreadable(cause: impl ToString) -> Self {
        Self::Unreadable { cause: cause.to_string().into() }
    }

    /// Returns the error of a damaged job.
    pub fn damaged(cause: impl ToString) -> Self {
        Self::Damaged { cause: cause.to_string().into() }
    }

    /// Marks the error as not applied, for a call that only reads.
    pub fn of_read(self) -> Self {
        match self {
            Self::Unavailable { cause, .. } => Self::unavailable(cause),
            Self::Replaced { .. } => Self::Replaced { applied: Applied::No },
            other => other,
        }
    }

    /// Marks the error as possibly applied, for a call of which another part was applied.
    pub fn of_part(self) -> Self {
        match self {
            Self::Replaced { .. } => Self::Replaced { applied: Applied::Unknown },
            Self::Unavailable { cause, .. } => {
                Self::Unavailable { applied: Applied::Unknown, cause }
            }
            unreadable @ Self::Unreadable { .. } => unreadable,
            other => Self::unknown(other),
        }
    }

    /// Returns whether the batch may have been applied.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Unavailable { applied, .. } | Self::Replaced { applied } => *applied,
            Self::Full { .. } | Self::Unsafe { .. } | Self::Damaged { .. } => Applied::No,
            Self::Unreadable { .. } => Applied::Unknown,
        }
    }
}

/// Error of opening a store. Each message says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process uses the directory, or the database in it.
    #[error(
        "failed to open {dir}: another delay-queue (or a tool that has jobs.db open) is using it; \
         stop that program, or set store.url to another directory"
    )]
    InUse {
        /// Data directory.
        dir: PathBuf,
    },
    /// The store does not exist, and the command does not create one.
    #[error("failed to open the store: there is none in {subject}; check store.url")]
    Missing {
        /// Data directory, or address of the server.
        subject: String,
    },
    /// The store has another layout.
    #[error(
        "failed to open the store: it was created with {part} = {found}, but this start needs \
         {asked} and would not find its jobs. {advice}"
    )]
    Layout {
        /// Part of the layout that differs.
        part: &'static str,
        /// Value in the store.
        found: String,
        /// Value that this start would use.
        asked: String,
        /// Advice for the operator.
        advice: &'static str,
    },
    /// This Redis may lose or refuse jobs.
    #[error("failed to open the store: this Redis does not meet the requirements: {0}")]
    Unfit(String),
    /// The store is unavailable; it may become available in a moment.
    #[error("failed to open {subject}: {cause}")]
    Unavailable {
        /// Address, or the resource requested.
        subject: String,
        /// The error of the connection or the server.
        cause: String,
    },
    /// The store's files are damaged.
    #[error(
        "failed to open the store in {dir}: {cause}. Nothing was changed. `delay-queue doctor \
         --repair` saves these files in another folder and creates a new store from all readable \
         jobs; `delay-queue export --skip-damaged FILE` writes the readable jobs to a file. Both \
         report what is missing"
    )]
    Damaged {
        /// Data directory.
        dir: PathBuf,
        /// The damage found.
        cause: String,
    },
    /// The engine failed.
    #[error("failed to open {subject}: {cause}")]
    Engine {
        /// File or address.
        subject: String,
        /// The error of the engine.
        cause: String,
    },
}
