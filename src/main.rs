//! The program: parse the command line, start telemetry, dispatch.

use std::process::ExitCode;

fn main() -> ExitCode {
    delay_queue::cli::main()
}
