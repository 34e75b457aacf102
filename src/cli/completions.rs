//! `delay-queue completions`: completions of the command line for a shell.

use std::{error::Error, io};

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::{Arguments, output};

/// Prints the script for a shell.
pub fn run(shell: Shell) -> Result<(), Box<dyn Error>> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "delay-queue", &mut script);
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    Ok(output::line(script.trim_end())?)
}
