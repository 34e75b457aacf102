//! `delay-queue export` and `import`: copy all jobs and schedules of a store to a file, and from it
//! into a store.
//!
//! The two stores may be of different kinds and have different numbers of buckets. Both commands
//! access the store directly; no server may use it at the same time.

mod attempt_line;
mod export;
#[cfg(any(test, fuzzing))]
#[path = "../../../fuzz/inside/export_lines.rs"]
mod fuzzing;
mod import;
mod job_line;
mod line;
mod opening;
mod part;
mod progress;
mod reader;
mod schedule_line;
mod servers;
mod tally;

use std::{
    error::Error,
    future::Future,
    path::{Path, PathBuf},
};

pub use self::progress::Progress;
use super::log;
use crate::config::{LogSettings, Settings};

#[cfg(any(test, fuzzing))]
pub use fuzzing::export_lines;

/// Write all jobs and schedules of the configured store into a file, one per line
///
/// Stop the servers of the store first. An interrupted export resumes when it is started again.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// The file to write (named FILE.part until it is complete), or - for standard output
    file: PathBuf,

    /// Replace FILE if it exists, and start over if FILE.part exists
    #[arg(long)]
    force: bool,

    /// Leave out jobs and schedules whose records are damaged, and report how many
    #[arg(long)]
    skip_damaged: bool,
}

/// Write all jobs and schedules of an exported file into the configured store, in their states
///
/// Stop the servers of the store first. The whole file is checked before anything is written. Jobs
/// whose ids exist in the store are skipped, as are schedules whose names exist, so an interrupted
/// import can be started again.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file that `export` wrote, or - for standard input
    file: PathBuf,
}

pub fn export(arguments: &Export, settings: &Settings) -> Result<(), Box<dyn Error>> {
    run_to_end(settings, export::run(arguments, settings))
}

pub fn import(arguments: &Import, settings: &Settings) -> Result<(), Box<dyn Error>> {
    run_to_end(settings, import::run(&arguments.file, settings))
}

/// Returns whether the argument is `-`, for standard input or output.
fn is_standard_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Runs a command until it completes. Logs only warnings, such as those about damage in a store.
fn run_to_end(
    settings: &Settings,
    command: impl Future<Output = Result<(), Box<dyn Error>>>,
) -> Result<(), Box<dyn Error>> {
    log::start(&LogSettings { filter: "warn".to_owned(), ..settings.log.clone() })?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
