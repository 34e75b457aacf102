//! The program: parse the command line, start telemetry, dispatch.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    delay_queue::cli::main()
}
