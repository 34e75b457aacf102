//! `delay-queue examples`: a cheat sheet by task, the same as in docs/command-line.md.

use std::error::Error;

use super::output;

/// Prints the examples.
pub fn run() -> Result<(), Box<dyn Error>> {
    Ok(output::line(include_str!("examples.txt").trim_end())?)
}
