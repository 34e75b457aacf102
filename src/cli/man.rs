//! `delay-queue man`: manual pages for packages.

use std::{error::Error, fs, path::Path};

use clap::CommandFactory;

use super::Arguments;

/// Writes a page for each command into a folder: `delay-queue.1`, `delay-queue-put.1` and so on.
pub fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let failed = |cause| format!("failed to write manual pages to {}: {cause}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    // The pages of `help` would repeat the others.
    let command = Arguments::command().disable_help_subcommand(true);
    Ok(clap_mangen::generate_to(command, folder).map_err(failed)?)
}
