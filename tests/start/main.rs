//! Starting, stopping and refusing to start, with the real binary; and what the README promises.

mod bench;
mod moving;
#[path = "../support/process.rs"]
mod process;
mod readme;
mod refusals;
mod signals;
#[path = "../support/mod.rs"]
mod support;

/// Runs the program to its end.
fn output(dir: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    process::program(dir, arguments).output().expect("the program runs")
}
